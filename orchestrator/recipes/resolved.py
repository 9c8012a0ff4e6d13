"""What the layers of a recipe come to: model, image, arguments and environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.recipes.taxonomy import KvStoreFile, StrategyRouter

USER = "your args"  # the layer of an Argument out of the deployment's own `args`


@dataclass(frozen=True, slots=True)
class HardwareProfile:
    """A kind of host. `vram_gb` is the sum over its `gpu_count` GPUs."""

    name: str
    brand: str  # NVIDIA, AMD, CPU, ...
    generation: str
    gpu_count: int
    vram_gb: float
    display_name: str = ""
    scalable: bool = True  # whether hosts of this kind can be joined to serve one model
    restricted: bool = False  # meant only for recipes that name it
    compute_arch: str | None = None  # sm90, gfx942, ...


@dataclass(frozen=True, slots=True)
class Strategy:
    """A strategy of the catalog: its name, kind of deployment and parallelism."""

    name: str
    deploy_type: str  # single_node, multi_node, pd_cluster, kv_store_lb
    display_name: str = ""
    parallelism: str | None = None  # tp_pp, tp_dp, or None: what parallel_flag says
    parallel_flag: str = "--tensor-parallel-size"


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Sizes of a model that decide how it can be split. None: not known.

    `kv_heads` is 1 for multi-head latent attention, whose cache holds `kv_latent` numbers a token
    and layer instead. `kv_layers` are the layers whose cache grows with the context, where linear
    or sliding-window layers do not. `quantization_block` is the block of block-wise FP8 weights.
    `weights_gb` (10^9 bytes) is the size of the checkpoint's files. `sparse_attention`: latent
    attention looks at chosen tokens only. `multimodal`: it takes more than text.
    """

    layers: int | None = None
    attention_heads: int | None = None
    kv_heads: int | None = None
    hidden_size: int | None = None
    head_dim: int | None = None
    experts: int | None = None
    moe_intermediate_size: int | None = None
    quantization_block: int | None = None
    kv_latent: int | None = None
    kv_layers: int | None = None
    weights_gb: float | None = None
    sparse_attention: bool | None = None
    multimodal: bool | None = None


@dataclass(frozen=True, slots=True)
class Argument:
    """One flag with its values as `vllm serve` gets them, and the layer that gave it."""

    flag: str  # canonical long form: --tensor-parallel-size for -tp
    tokens: tuple[str, ...]  # as rendered: ("--max-num-seqs", "512")
    layer: str


@dataclass(frozen=True, slots=True)
class CommandParts:
    """Arguments and environment of one kind of process, without what the topology decides.

    `arguments` hold no parallel or rank flag: what a layer fixed of those is in
    `fixed_parallel` (flag -> value, "" for a flag alone, "false" for its --no- form), a hard
    constraint for the topology, whose own flags go in at `parallel_position`. `env` may hold
    the public placeholders ($IFACE_NAME, $HEAD_IP, $PREFILL_NODE_1, $DECODE_NODE_1,
    $MOONCAKE_CONFIG_PATH), which the plan fills in for each node.
    """

    arguments: tuple[Argument, ...] = ()
    parallel_position: int = 0
    fixed_parallel: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)

    def has(self, flag: str) -> bool:
        """Whether `flag` (long form) is among the arguments, and not in its --no- form."""
        found = self._argument(flag)
        return found is not None and not found.tokens[0].startswith(("--no-", "--no_"))

    def value(self, flag: str) -> str | None:
        """The value of `flag` (long form) among the arguments; None when it is not there."""
        found = self._argument(flag)
        if found is None:
            return None
        _, equals, value = found.tokens[0].partition("=")
        return value if equals else " ".join(found.tokens[1:])

    def _argument(self, flag: str) -> Argument | None:
        return next((item for item in self.arguments if item.flag == flag), None)


@dataclass(frozen=True, slots=True)
class ResolvedPool:
    """One pool of prefill/decode.

    `tensor` is what the recipe sets for ranks of a data-parallel pool; None is vLLM's own 1.
    """

    role: str  # prefill, decode
    nodes: int
    parallelism: str  # tp, tep, dep
    tensor: int | None
    parts: CommandParts


@dataclass(frozen=True, slots=True)
class CompanionProcess:
    """A process that has to run beside `vllm serve` on the same host."""

    label: str
    description: str
    command: str


@dataclass(frozen=True, slots=True)
class ResolvedRecipe:
    """A recipe for one hardware, variant and strategy.

    `arguments`, `parallel_position`, `fixed_parallel` and `env` are as in `CommandParts`; under
    pd_cluster they are empty and `pools` hold them. --enable-expert-parallel is an ordinary
    argument. `fitted_tensor` is the tensor size that the recipe recommends under single_node_tp
    (the variant's, the strategy override's, or fitted to memory). A variable of the user's that
    is a Secret is not in `env`: the plan takes it from the deployment.
    """

    recipe: str
    model: str
    variant: str
    hardware: HardwareProfile
    strategy: Strategy
    features: tuple[str, ...]
    image: str
    arguments: tuple[Argument, ...]
    parallel_position: int
    fixed_parallel: Mapping[str, str] = field(default_factory=dict)
    fitted_tensor: int | None = None  # the tensor size on one node that the weights fit into
    env: Mapping[str, str] = field(default_factory=dict)
    docker_flags: tuple[str, ...] = ()  # device flags by brand
    shape: ModelShape = ModelShape()
    mixture_of_experts: bool = False
    min_vllm_version: str | None = None
    vram_minimum_gb: float | None = None
    notes: tuple[str, ...] = ()
    minimum_gpus: int = 0
    precision: str | None = None
    parameters: float | None = None  # how many, as the recipe rounds them
    fewest_parameters: float | None = None  # that round to them: 670.5 billion for 671B
    active_parameters: float | None = None  # of them, for one token
    context_length: int | None = None  # tokens
    pools: Mapping[str, ResolvedPool] = field(default_factory=dict)
    kv_offload: str | None = None
    kv_store: KvStoreFile | None = None
    companions: tuple[CompanionProcess, ...] = ()
    router: StrategyRouter | None = None

    @property
    def parts(self) -> CommandParts:
        """The arguments and environment of every process, where there are no pools."""
        return CommandParts(self.arguments, self.parallel_position, self.fixed_parallel, self.env)

    @property
    def expert_parallel(self) -> bool:
        """Whether an argument says --enable-expert-parallel."""
        return self.has("--enable-expert-parallel")

    def has(self, flag: str) -> bool:
        """Whether `flag` (long form) is among the arguments, and not in its --no- form."""
        return self.parts.has(flag)

    def value(self, flag: str) -> str | None:
        """The value of `flag` (long form) among the arguments; None when it is not there."""
        return self.parts.value(flag)

    def argv(self, parallel: Sequence[str] = ()) -> list[str]:
        """`vllm serve MODEL ...` with `parallel` (flags and values) at their place."""
        return self.pool_argv(self.parts, parallel)

    def pool_argv(self, parts: CommandParts, parallel: Sequence[str] = ()) -> list[str]:
        """`argv` for the arguments of one pool (`pools[role].parts`)."""
        words = ["vllm", "serve", self.model]
        for position, argument in enumerate(parts.arguments):
            if position == parts.parallel_position:
                words += parallel
            words += argument.tokens
        if parts.parallel_position >= len(parts.arguments):
            words += parallel
        return words
