"""What is chosen of a recipe, checked: variant, hardware, strategy, features, pools, KV offload.

An unknown name, or a combination that the recipe forbids, is an InputError that says what there
is. Nothing falls back silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from orchestrator.deployment import Deployment, Pool
from orchestrator.errors import InputError, did_you_mean, name_hint
from orchestrator.recipes.features import ChosenFeature, choose_features
from orchestrator.recipes.keyed import for_hardware, sized
from orchestrator.recipes.part import PoolMode
from orchestrator.recipes.recommend import (
    default_variant,
    offered_strategies,
    precision_constraint,
    recommended_strategy,
    strategy_supported,
    variant_supported,
)
from orchestrator.recipes.resolved import HardwareProfile
from orchestrator.recipes.schema import Pool as RecipePool
from orchestrator.recipes.schema import Recipe, StrategyOverride, Variant
from orchestrator.recipes.taxonomy import KvOffloadOption, KvStoreFile, StrategyFile

_POOL_FAMILIES: dict[PoolMode, set[str]] = {
    "tp": {"tp", "tp_pp", "tp_dp"},
    "tep": {"tep"},
    "dep": {"dep"},
}
# Mooncake transfer engine is built for CUDA, for ROCm and for neither (-non-cuda: TCP, RDMA).
_STORE_BRANDS = ("NVIDIA", "AMD", "CPU")


@dataclass(frozen=True, slots=True)
class Offer:
    """What a catalog has to choose from besides the recipe itself."""

    strategies: Mapping[str, StrategyFile]
    kv_options: Mapping[str, KvOffloadOption]
    kv_stores: Mapping[str, KvStoreFile]


@dataclass(frozen=True, slots=True)
class PoolSelection:
    role: str  # prefill, decode
    nodes: int
    parallelism: PoolMode
    tensor: int | None


@dataclass(frozen=True, slots=True)
class Selection:
    """A recipe with everything that is chosen of it. `where` is its file, for messages."""

    name: str
    where: str
    recipe: Recipe
    variant_name: str
    variant: Variant
    hardware: HardwareProfile
    strategy: StrategyFile
    features: tuple[ChosenFeature, ...]
    pools: tuple[PoolSelection, ...] = ()
    kv_offload: str | None = None
    kv_option: KvOffloadOption | None = None
    kv_store: KvStoreFile | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def strategy_override(self) -> StrategyOverride | None:
        return self.recipe.strategy_overrides.get(self.strategy.name)


def select(
    name: str,
    where: str,
    recipe: Recipe,
    deployment: Deployment,
    hardware: HardwareProfile,
    offer: Offer,
    nodes: int | None = None,
) -> Selection:
    """The choices of `deployment` among what `recipe` allows on `hardware`.

    `nodes` is the number of nodes per replica when the caller knows it; it decides the
    recommended strategy. Raises InputError.
    """
    variant_name = deployment.variant
    if "variant" not in deployment.model_fields_set:
        variant_name = default_variant(recipe, hardware)
    variant = _variant(name, where, recipe, variant_name)
    _check_hardware(where, recipe, variant_name, variant, hardware)
    offload, strategy_name = deployment.kv_offload, deployment.strategy
    if strategy_name in offer.kv_stores:  # the site lists the KV stores among the strategies
        if offload not in (None, strategy_name):
            raise InputError(
                f"strategy {strategy_name!r} is itself a KV offload, and kv_offload is {offload!r}",
                where=where,
                hint="name the store as kv_offload and a serving strategy as strategy",
            )
        offload, strategy_name = strategy_name, None
    wanted = deployment.nodes or nodes
    if strategy_name is None:
        strategy_name = recommended_strategy(recipe, variant_name, hardware, wanted)
    strategy = _strategy(where, recipe, strategy_name, hardware, offer)
    option, store = _kv_offload(where, recipe, offload, hardware, strategy, offer)
    return Selection(
        name=name,
        where=where,
        recipe=recipe,
        variant_name=variant_name,
        variant=variant,
        hardware=hardware,
        strategy=strategy,
        features=choose_features(
            where, recipe, variant_name, hardware, strategy.name, deployment.features
        ),
        pools=_pools(where, recipe, deployment, strategy, hardware),
        kv_offload=offload,
        kv_option=option,
        kv_store=store,
        notes=tuple(_notes(recipe, hardware)),
    )


def _variant(name: str, where: str, recipe: Recipe, wanted: str) -> Variant:
    if wanted not in recipe.variants:
        raise InputError(
            f"recipe {name} has no variant {wanted!r}",
            where=where,
            hint=name_hint(wanted, recipe.variants),
        )
    return recipe.variants[wanted]


def _check_hardware(
    where: str, recipe: Recipe, variant_name: str, variant: Variant, hardware: HardwareProfile
) -> None:
    if recipe.meta.hardware.get(hardware.name) == "unsupported":
        verified = [name for name, how in recipe.meta.hardware.items() if how != "unsupported"]
        raise InputError(
            f"the recipe marks {hardware.name} as unsupported (meta.hardware.{hardware.name})",
            where=where,
            hint="it is known to run on: " + (", ".join(verified) or "nothing is listed"),
        )
    if not variant_supported(variant, hardware):
        raise InputError(
            f"variant {variant_name!r} does not run on {hardware.name}"
            f" (variants.{variant_name}.supported_hardware)",
            where=where,
            hint="it runs on: " + ", ".join(variant.supported_hardware),
        )
    constraint = precision_constraint(variant)
    if constraint and not constraint.allows(hardware):
        fitting = [
            name
            for name, other in recipe.variants.items()
            if (needs := precision_constraint(other)) is None or needs.allows(hardware)
        ]
        raise InputError(
            f"variant {variant_name!r} is {variant.precision}, which needs {constraint},"
            f" and {hardware.name} is {hardware.brand} {hardware.generation}",
            where=where,
            hint="variants that run there: " + (", ".join(fitting) or "none"),
        )


def _strategy(
    where: str, recipe: Recipe, wanted: str, hardware: HardwareProfile, offer: Offer
) -> StrategyFile:
    offered = offered_strategies(recipe)
    if wanted not in offer.strategies:
        raise InputError(
            f"there is no strategy {wanted!r}",
            where=where,
            hint=name_hint(wanted, tuple(offered) or tuple(offer.strategies)),
        )
    if not strategy_supported(recipe, wanted, hardware):
        usable = [name for name in offered if strategy_supported(recipe, name, hardware)]
        raise InputError(
            f"the recipe does not allow strategy {wanted!r} on {hardware.name}",
            where=where,
            why="it is not in compatible_strategies"
            if wanted not in offered
            else f"strategy_hardware.{wanted} rules it out there",
            hint="allowed: " + (", ".join(usable) or "none"),
        )
    for name in recipe.strategy_overrides:
        if name not in offer.strategies:
            raise InputError(
                f"strategy_overrides.{name}: there is no such strategy",
                where=where,
                hint=did_you_mean(name, offer.strategies),
            )
    return offer.strategies[wanted]


def _kv_offload(
    where: str,
    recipe: Recipe,
    wanted: str | None,
    hardware: HardwareProfile,
    strategy: StrategyFile,
    offer: Offer,
) -> tuple[KvOffloadOption | None, KvStoreFile | None]:
    if wanted is None:
        return None, None
    if not strategy.kv_offload:
        raise InputError(f"strategy {strategy.name} allows no KV offload", where=where)
    if wanted in offer.kv_stores:
        gate = for_hardware(recipe.kv_cache_strategy_hardware.get(wanted), hardware)
        if hardware.brand not in _STORE_BRANDS or gate == "unsupported":
            raise InputError(
                f"the KV store {wanted!r} does not run on {hardware.name}",
                where=where,
                why=f"the recipe marks it so (kv_cache_strategy_hardware.{wanted})"
                if gate == "unsupported"
                else "its transfer engine is built for NVIDIA and AMD GPUs and for CPUs only",
            )
        return None, offer.kv_stores[wanted]
    option = offer.kv_options.get(wanted)
    if option is None:
        known = (*offer.kv_options, *offer.kv_stores)
        raise InputError(
            f"there is no KV offload {wanted!r}", where=where, hint=name_hint(wanted, known)
        )
    refusal = _option_refusal(recipe, wanted, option, hardware, strategy)
    if refusal:
        raise InputError(f"KV offload {wanted!r} cannot be used here", where=where, why=refusal)
    return option, None


def _option_refusal(
    recipe: Recipe,
    name: str,
    option: KvOffloadOption,
    hardware: HardwareProfile,
    strategy: StrategyFile,
) -> str | None:
    support = recipe.kv_offload_support.get(name)
    if strategy.deploy_type in {"pd_cluster", "kv_store_lb"}:
        return f"{strategy.name} has a --kv-transfer-config of its own"
    if option.strategies and strategy.name not in option.strategies:
        return f"it works with {', '.join(option.strategies)} only, not {strategy.name}"
    if support == "unsupported":
        return f"the recipe marks it as unsupported (kv_offload_support.{name})"
    if option.requires_opt_in and support != "verified":
        return f"it needs a recipe that lists it as verified (kv_offload_support.{name})"
    if option.brands and hardware.brand not in option.brands:
        return f"it runs on {', '.join(option.brands)}, and {hardware.name} is {hardware.brand}"
    return None


def pool_modes(recipe: Recipe) -> tuple[PoolMode, ...]:
    """How a pool of prefill/decode may be parallel: the families of the recipe's strategies.

    `strategy_overrides.pd_cluster.pool_modes` narrows them.
    """
    endings = {
        name.split("_node_")[-1] for name in offered_strategies(recipe) if name != "pd_cluster"
    }
    families = [mode for mode, family in _POOL_FAMILIES.items() if endings & family]
    override = recipe.strategy_overrides.get("pd_cluster") or StrategyOverride()
    narrowed = [mode for mode in families if mode in override.pool_modes]
    return tuple(narrowed or families or ["tp"])


def _pools(
    where: str,
    recipe: Recipe,
    deployment: Deployment,
    strategy: StrategyFile,
    hardware: HardwareProfile,
) -> tuple[PoolSelection, ...]:
    if strategy.deploy_type != "pd_cluster":
        if deployment.pools:
            raise InputError(
                f"pools are for pd_cluster, and the strategy is {strategy.name}", where=where
            )
        return ()
    asked = deployment.pools or {}
    override = recipe.strategy_overrides.get(strategy.name) or StrategyOverride()
    return (
        _pool("prefill", where, recipe, asked.get("prefill"), override, strategy, hardware),
        _pool("decode", where, recipe, asked.get("decode"), override, strategy, hardware),
    )


def _pool(
    role: str,
    where: str,
    recipe: Recipe,
    asked: Pool | int | None,
    override: StrategyOverride,
    strategy: StrategyFile,
    hardware: HardwareProfile,
) -> PoolSelection:
    """The user's wish for a pool, else the recipe's, else the strategy's, else one TP node."""
    given = Pool(nodes=asked) if isinstance(asked, int) else asked
    declared = override.pool(role) or RecipePool()
    defaults = strategy.role(role)
    modes = pool_modes(recipe)
    if given and given.parallelism and given.parallelism not in modes:
        raise InputError(
            f"the {role} pool cannot be {given.parallelism!r}",
            where=where,
            hint="the recipe's strategies allow: " + ", ".join(modes),
        )
    mode = (
        (given.parallelism if given else None)
        or _declared_mode(declared, hardware)
        or defaults.parallelism
        or "tp"
    )
    return PoolSelection(
        role=role,
        nodes=given.nodes if given else sized(declared.nodes, hardware) or 1,
        parallelism=mode if mode in modes else modes[0],
        tensor=declared.tp if declared.tp is not None else defaults.tp,
    )


def _declared_mode(declared: RecipePool, hardware: HardwareProfile) -> PoolMode | None:
    mode = declared.parallelism
    return for_hardware(mode, hardware) if isinstance(mode, dict) else mode


def _notes(recipe: Recipe, hardware: HardwareProfile) -> list[str]:
    notes = []
    if hardware.restricted and hardware.name not in recipe.meta.hardware:
        notes.append(
            f"the recipe does not name {hardware.name}: nobody has reported it to run there"
        )
    if recipe.omni and len(recipe.omni.tasks) > 1:
        first, *others = [task.key or task.id for task in recipe.omni.tasks]
        notes.append(f"of its tasks {first} is served; the others are {', '.join(others)}")
    told = recipe.hardware_notes.get(hardware.name)
    if told:
        notes.append(f"{told.title}: {told.body}".strip().rstrip(":"))
    return notes
