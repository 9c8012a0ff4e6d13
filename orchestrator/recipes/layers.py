"""The layers of a recipe in their order: what each adds to arguments and environment.

The order is the public site's: base, variant, variant on the exact hardware, strategy (where the
parallel flags stand), strategy override, hardware override, features, KV offload. A strategy's
override for a generation replaces the recipe's and the variant's; one for an exact hardware adds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from orchestrator.recipes.keyed import for_generation, for_hardware
from orchestrator.recipes.schema import Feature, FeatureOverride, Mode, StrategyOverride
from orchestrator.recipes.selection import PoolSelection, Selection

# NCCL and UCX settings for the NVLink between GB200/GB300 trays; on other hosts they are inert
# or harmful, and the site leaves them out there.
NVL4_HARDWARE = frozenset({"gb200", "gb300"})
NVL4_ONLY = frozenset(
    {
        "VLLM_USE_NCCL_SYMM_MEM",
        "NCCL_CUMEM_ENABLE",
        "NCCL_MNNVL_ENABLE",
        "NCCL_NVLS_ENABLE",
        "UCX_NET_DEVICES",
    }
)
PARALLEL = "parallel sizes"
KV_OFFLOAD = ("KV offload ", "KV store ")  # how the names of its layers begin


@dataclass(frozen=True, slots=True)
class Layer:
    """What one source gives: words of arguments, variables, and variables it takes away."""

    name: str
    arguments: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    removes: frozenset[str] = frozenset()


def layers(selection: Selection, pool: PoolSelection | None = None) -> list[Layer]:
    """All layers of a selection, for one pool under prefill/decode.

    The layer named `PARALLEL` marks where the topology's flags stand.
    """
    everything = [
        *_base(selection),
        *_strategy(selection, pool),
        *_strategy_override(selection, pool),
        *_hardware_overrides(selection, pool),
        *_omni(selection),
        *_features(selection),
        *_kv_offload(selection, pool),
    ]
    if pool and selection.hardware.name not in NVL4_HARDWARE:
        everything.append(Layer("GB200/GB300 only", removes=NVL4_ONLY))
    return everything


def _base(selection: Selection) -> Iterator[Layer]:
    model, variant = selection.recipe.model, selection.variant
    yield Layer("base", model.base_args, model.base_env)
    if _frontend(selection) == "rust":
        yield Layer("default_frontend rust", env={"VLLM_USE_RUST_FRONTEND": "1"})
    yield Layer(f"variant {selection.variant_name}", variant.extra_args, variant.extra_env)
    exact = variant.hardware_overrides.get(selection.hardware.name)
    if exact:
        name = f"variant {selection.variant_name} on {selection.hardware.name}"
        yield Layer(name, exact.extra_args, exact.extra_env)


def _frontend(selection: Selection) -> str | None:
    declared = selection.recipe.model.default_frontend
    return for_hardware(declared, selection.hardware) if isinstance(declared, dict) else declared


def _strategy(selection: Selection, pool: PoolSelection | None) -> Iterator[Layer]:
    strategy = selection.strategy
    if pool is None:
        yield Layer(f"strategy {strategy.name}", strategy.vllm_args, strategy.env)
    else:
        role = strategy.role(pool.role)
        yield Layer(f"strategy {strategy.name} {pool.role}", role.vllm_args, role.env)
    option = selection.kv_option
    if option and option.env:
        yield Layer(f"KV offload {selection.kv_offload} (environment)", env=option.env)
    store = selection.kv_store
    if store and (pool is None or store.pd):
        yield Layer(f"KV store {store.name} (environment)", env=store.vllm.env)
    yield Layer(PARALLEL)
    if pool:
        yield _pool(selection, pool)


def _pool(selection: Selection, pool: PoolSelection) -> Layer:
    """What a pool's parallelism and size add, besides the sizes themselves."""
    gpus = ",".join(str(number) for number in range(selection.hardware.gpu_count))
    env = {"CUDA_VISIBLE_DEVICES": gpus}
    if pool.nodes > 1:
        env |= {"GLOO_SOCKET_IFNAME": "$IFACE_NAME", "NCCL_SOCKET_IFNAME": "$IFACE_NAME"}
    expert = ("--enable-expert-parallel",) if pool.parallelism in {"dep", "tep"} else ()
    return Layer(f"{pool.role} pool ({pool.parallelism})", expert, env)


def _strategy_override(selection: Selection, pool: PoolSelection | None) -> Iterator[Layer]:
    override = selection.strategy_override
    if override is None:
        return
    name = f"strategy override {selection.strategy.name}"
    if pool is None:
        words = override.extra_args + override.vllm_args
        yield Layer(name, words, override.env | override.extra_env)
        return
    yield Layer(name, env=override.env)
    settings = override.pool(pool.role)
    if settings:
        words = settings.extra_args + settings.vllm_args
        yield Layer(f"{name} {pool.role}", words, settings.env)


def _hardware_overrides(selection: Selection, pool: PoolSelection | None) -> Iterator[Layer]:
    hardware, variant = selection.hardware, selection.variant
    override = selection.strategy_override or StrategyOverride()
    name = f"strategy override {selection.strategy.name}"
    of_strategy = for_generation(override.hardware_overrides, hardware)
    if of_strategy:
        key, given = of_strategy
        yield Layer(f"{name} on {key}", given.extra_args, given.extra_env)
    else:
        of_recipe = for_generation(selection.recipe.hardware_overrides, hardware)
        if of_recipe:
            key, given = of_recipe
            yield Layer(f"hardware override {key}", given.extra_args, given.extra_env)
        of_variant = for_generation(variant.hardware_overrides, hardware)
        if of_variant:
            key, given = of_variant
            layer = f"variant {selection.variant_name} on {key}"
            yield Layer(layer, given.extra_args, given.extra_env)
    exact = override.hardware_overrides.get(hardware.name)
    if exact:
        yield Layer(f"{name} on {hardware.name}", exact.extra_args, exact.extra_env)
    settings = override.pool(pool.role) if pool else None
    of_role = settings.hardware_overrides.get(hardware.name) if settings else None
    if pool and of_role:
        layer = f"{name} {pool.role} on {hardware.name}"
        yield Layer(layer, of_role.extra_args, of_role.extra_env)


def _omni(selection: Selection) -> Iterator[Layer]:
    """vLLM-Omni's own flags, and those of the task that is served: the first one listed."""
    omni = selection.recipe.omni
    if omni is None:
        return
    if omni.tasks:
        yield Layer(f"omni task {omni.tasks[0].key or omni.tasks[0].id}", omni.tasks[0].extra_args)
    port = ("--port", str(omni.port)) if omni.port else ()
    yield Layer("omni", (*port, "--omni"))


def _features(selection: Selection) -> Iterator[Layer]:
    for chosen in selection.features:
        feature = selection.recipe.features[chosen.name]
        if selection.kv_store and feature.companion:
            continue  # its companion has no place beside the instances of a KV store
        source: Feature | Mode = feature.modes[chosen.mode] if chosen.mode else feature
        override = for_hardware(source.hardware_overrides, selection.hardware) or FeatureOverride()
        words = source.args if override.args is None else override.args
        env = source.env if override.env is None else override.env
        yield Layer(f"feature {chosen}", words, env)


def _kv_offload(selection: Selection, pool: PoolSelection | None) -> Iterator[Layer]:
    option, store = selection.kv_option, selection.kv_store
    if option:
        yield Layer(f"KV offload {selection.kv_offload}", option.args)
    if store and pool is None:
        yield Layer(f"KV store {store.name}", store.vllm.vllm_args)
    elif store and store.pd and pool:
        words = (store.pd.prefill if pool.role == "prefill" else store.pd.decode).args
        yield Layer(f"KV store {store.name} {pool.role}", words)
