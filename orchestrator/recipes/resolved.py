"""What the layers of a recipe come to: model, image, arguments and environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class HardwareProfile:
    """A kind of host. `vram_gb` is the sum over its `gpu_count` GPUs."""

    name: str
    brand: str  # NVIDIA, AMD, CPU, ...
    generation: str
    gpu_count: int
    vram_gb: float
    display_name: str = ""


@dataclass(frozen=True, slots=True)
class Strategy:
    """A strategy of the catalog: its name, kind of deployment and parallelism."""

    name: str
    deploy_type: str  # single_node, multi_node, pd_cluster, kv_store_lb
    display_name: str = ""
    parallelism: str | None = None


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Sizes of a model that decide how it can be split. None: not known."""

    layers: int | None = None
    attention_heads: int | None = None
    kv_heads: int | None = None
    hidden_size: int | None = None
    head_dim: int | None = None
    experts: int | None = None
    moe_intermediate_size: int | None = None
    quantization_block: int | None = None


@dataclass(frozen=True, slots=True)
class Argument:
    """One flag with its values as `vllm serve` gets them, and the layer that gave it."""

    flag: str  # canonical long form: --tensor-parallel-size for -tp
    tokens: tuple[str, ...]  # as rendered: ("--max-num-seqs", "512")
    layer: str


@dataclass(frozen=True, slots=True)
class ResolvedRecipe:
    """A recipe for one hardware, variant and strategy.

    `arguments` hold no parallel or rank flag: what a layer fixed of those is in
    `fixed_parallel` (flag -> value), a hard constraint for the topology, whose own flags go in
    at `parallel_position`. `env` may hold the public placeholders ($IFACE_NAME, $HEAD_IP),
    which the plan fills in for each node.
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

    def argv(self, parallel: Sequence[str]) -> list[str]:
        """`vllm serve MODEL ...` with `parallel` (flags and values) at their place."""
        words = ["vllm", "serve", self.model]
        for position, argument in enumerate(self.arguments):
            if position == self.parallel_position:
                words += parallel
            words += argument.tokens
        if self.parallel_position >= len(self.arguments):
            words += parallel
        return words
