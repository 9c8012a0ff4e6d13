"""The public recipe schema (recipes.vllm.ai): one model file, `models/<org>/<repo>.yaml`.

Every key that the public catalogs use has its place here, and no other key is accepted, since
a key that is silently dropped is a launch that is subtly wrong. `model.shape` and a feature's
`excludes` are this project's own additions.
"""

from __future__ import annotations

from datetime import date

from pydantic import Field, ValidationInfo, field_validator

from orchestrator.recipes.omni import Omni
from orchestrator.recipes.part import (
    Architecture,
    Arguments,
    Environment,
    Frontend,
    OptionalMapping,
    Part,
    PoolMode,
    Support,
)
from orchestrator.recipes.presets import Preset


class Platform(Part):
    id: str
    blurb: str = ""
    script: str | None = None
    install: str | None = None


class Meta(Part):
    title: str
    provider: str = ""
    slug: str | None = None
    description: str = ""
    date_added: date | None = None
    date_updated: date | None = None
    difficulty: str | None = None
    tasks: tuple[str, ...] = ()
    performance_headline: str | None = None
    related_recipes: tuple[str, ...] = ()
    hardware: OptionalMapping[dict[str, Support]] = Field(default_factory=dict)
    default_hardware: str | None = None
    default_variant: str | dict[str, str] | None = None
    platforms: tuple[Platform, ...] = ()


class Install(Part):
    """How to install with pip or docker; `false` says that this way does not exist."""

    class Way(Part):
        command: str | None = None
        note: str | None = None

    pip: Way | bool | None = None
    docker: Way | bool | None = None


class CudaImages(Part):
    """Images by CUDA version; the site's default is the newer one."""

    cu129: str | None = None
    cu130: str | None = None

    @property
    def preferred(self) -> str | None:
        return self.cu130 or self.cu129


class BrandImages(Part):
    nvidia: str | CudaImages | None = None
    amd: str | None = None
    tpu: str | None = None
    intel: str | None = None


DockerImage = str | CudaImages | BrandImages


class Shape(Part):
    """Sizes of the model that decide how it can be split (this project's own key)."""

    layers: int | None = Field(default=None, ge=1)
    attention_heads: int | None = Field(default=None, ge=1)
    kv_heads: int | None = Field(default=None, ge=1)
    hidden_size: int | None = Field(default=None, ge=1)
    head_dim: int | None = Field(default=None, ge=1)
    experts: int | None = Field(default=None, ge=1)
    moe_intermediate_size: int | None = Field(default=None, ge=1)
    quantization_block: int | None = Field(default=None, ge=1)
    kv_latent: int | None = Field(default=None, ge=1)
    kv_layers: int | None = Field(default=None, ge=1)
    weights_gb: float | None = Field(default=None, gt=0)
    sparse_attention: bool | None = None
    multimodal: bool | None = None


class SmgGrpc(Part):
    tool_call_parser: str | None = None
    reasoning_parser: str | None = None


class Model(Part):
    model_id: str
    architecture: Architecture = "dense"
    min_vllm_version: str | None = None
    docker_image: DockerImage | None = None
    nightly_required: bool = False
    install: Install | None = None
    parameter_count: str | None = None
    active_parameters: str | None = None
    context_length: int | None = None
    supports_dcp: bool = False
    flashinfer_autotune: bool = False
    default_frontend: Frontend | dict[str, Frontend] | None = None
    rust_frontend: str | None = None
    smg_grpc: SmgGrpc | None = None
    base_args: Arguments = ()
    base_env: Environment = Field(default_factory=dict)
    shape: Shape | None = None


class FeatureOverride(Part):
    """Replaces a feature's or a mode's arguments (or environment) on one kind of hardware."""

    args: Arguments | None = None
    env: Environment | None = None


class Mode(Part):
    label: str | None = None
    description: str = ""
    args: Arguments = ()
    env: Environment = Field(default_factory=dict)
    hardware: dict[str, Support] = Field(default_factory=dict)
    hardware_overrides: dict[str, FeatureOverride] = Field(default_factory=dict)
    variants: tuple[str, ...] = ()


class Companion(Part):
    """A process that has to run beside `vllm serve`."""

    label: str = ""
    description: str = ""
    command: str


class Feature(Part):
    label: str | None = None
    description: str = ""
    modes: dict[str, Mode] = Field(default_factory=dict)
    args: Arguments = ()
    env: Environment = Field(default_factory=dict)
    default_mode: str | None = None
    hardware: dict[str, Support] = Field(default_factory=dict)
    hardware_overrides: dict[str, FeatureOverride] = Field(default_factory=dict)
    strategies: tuple[str, ...] = ()
    companion: Companion | None = None
    excludes: tuple[str, ...] = ()

    @field_validator("modes")
    @classmethod
    def _modes_are_some(cls, modes: dict[str, Mode]) -> dict[str, Mode]:
        if not modes:
            raise ValueError("modes hold at least one mode; leave the key out for a plain feature")
        return modes

    @field_validator("args")
    @classmethod
    def _args_or_modes(cls, args: tuple[str, ...], others: ValidationInfo) -> tuple[str, ...]:
        if args and others.data.get("modes"):
            raise ValueError(
                "a feature has either args or modes: with modes, each mode brings its own args"
            )
        return args

    @field_validator("default_mode")
    @classmethod
    def _default_is_a_mode(cls, name: str | None, others: ValidationInfo) -> str | None:
        modes = others.data.get("modes")  # not there when they are faulty themselves
        if name and modes is not None and name not in modes:
            raise ValueError("one of its modes: " + (", ".join(modes) or "it has none"))
        return name


class HardwareOverride(Part):
    """What a recipe or a strategy override adds on one generation, brand or exact hardware."""

    extra_args: Arguments = ()
    extra_env: Environment = Field(default_factory=dict)
    install_note: str | None = None


class VariantHardwareOverride(HardwareOverride):
    docker_image: str | None = None
    docker_serve_command: str | None = None
    install: Install | None = None
    vram_minimum_gb: float | None = None


TensorSize = int | dict[str, int]


class PrecisionHardware(Part):
    brand: str | None = None
    generation: str | None = None


class Variant(Part):
    model_id: str | None = None
    precision: str | None = None
    label: str | None = None
    description: str = ""
    vram_minimum_gb: float | None = None
    min_vllm_version: str | None = None
    nightly_required: bool = False
    tp: TensorSize | None = None
    extra_args: Arguments = ()
    extra_env: Environment = Field(default_factory=dict)
    hardware_overrides: dict[str, VariantHardwareOverride] = Field(default_factory=dict)
    docker_image: DockerImage | None = None
    default_modes: dict[str, str] = Field(default_factory=dict)
    supported_hardware: tuple[str, ...] = ()  # profiles, or `arch:<compute_arch>`
    precision_hardware: PrecisionHardware | None = None
    shape: Shape | None = None


class Pool(Part):
    """A recipe's settings for one pool of prefill/decode."""

    nodes: int | dict[str, int] | None = None
    parallelism: PoolMode | dict[str, PoolMode] | None = None
    tp: int | None = None
    parallel_flag: str | None = None
    extra_args: Arguments = ()
    vllm_args: Arguments = ()
    env: Environment = Field(default_factory=dict)
    hardware_overrides: dict[str, HardwareOverride] = Field(default_factory=dict)


class PoolRouter(Part):
    intra_node_data_parallel_size: int | None = None


class StrategyOverride(Part):
    tp: TensorSize | None = None
    extra_args: Arguments = ()
    vllm_args: Arguments = ()
    extra_env: Environment = Field(default_factory=dict)
    env: Environment = Field(default_factory=dict)
    hardware_overrides: dict[str, HardwareOverride] = Field(default_factory=dict)
    prefill: Pool | None = None
    decode: Pool | None = None
    pool_modes: tuple[PoolMode, ...] = ()
    router: PoolRouter | None = None

    def pool(self, role: str) -> Pool | None:
        return {"prefill": self.prefill, "decode": self.decode}.get(role)


class Dependency(Part):
    note: str = ""
    command: str
    brand: str | None = None
    optional: bool = False
    install_modes: tuple[str, ...] = ()


class HardwareNote(Part):
    class Link(Part):
        label: str
        href: str

    title: str
    body: str = ""
    link: Link | None = None


MinimumGpus = int | dict[str, int | dict[str, int]]


class Recipe(Part):
    """One model file: what to serve, and what to add for each variant, strategy and hardware."""

    meta: Meta
    model: Model
    variants: dict[str, Variant]
    features: OptionalMapping[dict[str, Feature]] = Field(default_factory=dict)
    opt_in_features: tuple[str, ...] = ()
    hardware_opt_in_features: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    compatible_strategies: tuple[str, ...] = ()
    default_strategy: str | None = None
    strategy_overrides: OptionalMapping[dict[str, StrategyOverride]] = Field(default_factory=dict)
    strategy_hardware: dict[str, dict[str, Support]] = Field(default_factory=dict)
    strategy_min_gpus: MinimumGpus | None = None
    hardware_overrides: OptionalMapping[dict[str, HardwareOverride]] = Field(default_factory=dict)
    hardware_notes: dict[str, HardwareNote] = Field(default_factory=dict)
    kv_offload_support: dict[str, Support] = Field(default_factory=dict)
    kv_cache_strategy_hardware: dict[str, dict[str, Support]] = Field(default_factory=dict)
    dependencies: tuple[Dependency, ...] = ()
    omni: Omni | None = None
    presets: dict[str, Preset] = Field(default_factory=dict)
    guide: str = ""

    @field_validator("variants")
    @classmethod
    def _variants_are_some(cls, variants: dict[str, Variant]) -> dict[str, Variant]:
        if not variants:
            raise ValueError("a recipe has at least one variant, `default`")
        return variants
