"""What a recipe offers and recommends: strategies, hardware, tensor size, what fits in memory.

The rules are the public site's, so that a selection left open comes out as it would there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.recipes.keyed import for_hardware, sized
from orchestrator.recipes.resolved import HardwareProfile
from orchestrator.recipes.schema import Recipe, StrategyOverride, Variant

_MULTI_NODE_ORDER = ("multi_node_tp", "multi_node_dep", "multi_node_tep")


@dataclass(frozen=True, slots=True)
class PrecisionConstraint:
    """The hardware that can compute in a precision."""

    brand: str | None
    generation: str | None

    def allows(self, hardware: HardwareProfile) -> bool:
        return self.brand in (None, hardware.brand) and self.generation in (
            None,
            hardware.generation,
        )

    def __str__(self) -> str:
        return " ".join(part for part in (self.brand, self.generation) if part) or "any hardware"


# FP4 kernels need tensor cores of sm_100 and later.
_BLACKWELL = PrecisionConstraint("NVIDIA", "blackwell")


def precision_constraint(variant: Variant) -> PrecisionConstraint | None:
    """The hardware that a variant's precision asks for, which the variant may widen."""
    own = variant.precision_hardware
    if own:
        return PrecisionConstraint(own.brand, own.generation)
    return _BLACKWELL if variant.precision in {"nvfp4", "fp4"} else None


def variant_supported(variant: Variant, hardware: HardwareProfile) -> bool:
    """Whether `supported_hardware` names this profile or its architecture, or nothing at all."""
    names = {hardware.name, f"arch:{hardware.compute_arch}"}
    return not variant.supported_hardware or not names.isdisjoint(variant.supported_hardware)


def variant_usable(recipe: Recipe, variant: Variant, hardware: HardwareProfile) -> bool:
    """Whether a variant may be offered on this hardware, memory aside.

    Restricted hardware is offered only by recipes that name it.
    """
    constraint = precision_constraint(variant)
    return (
        (constraint is None or constraint.allows(hardware))
        and recipe.meta.hardware.get(hardware.name) != "unsupported"
        and variant_supported(variant, hardware)
        and (not hardware.restricted or hardware.name in recipe.meta.hardware)
    )


def usable_variants(recipe: Recipe, hardware: HardwareProfile) -> list[str]:
    """The variants that may be offered on this hardware."""
    return [
        name
        for name, variant in recipe.variants.items()
        if variant_usable(recipe, variant, hardware)
    ]


def default_variant(recipe: Recipe, hardware: HardwareProfile) -> str:
    """The variant when none is named: `meta.default_variant` on this hardware, else `default`."""
    declared = recipe.meta.default_variant
    if isinstance(declared, dict):
        declared = for_hardware(declared, hardware)
    for name in (declared, "default"):
        if name in recipe.variants:
            return name
    return next(iter(recipe.variants))


def offered_strategies(recipe: Recipe) -> list[str]:
    """The compatible strategies, and those that `strategy_hardware` grants to some hardware.

    A recipe for vLLM-Omni names none: it is one process on one node.
    """
    granted = [
        name
        for name, gates in recipe.strategy_hardware.items()
        if name not in recipe.compatible_strategies and "supported" in gates.values()
    ]
    offered = [*recipe.compatible_strategies, *granted]
    return offered if offered or not recipe.omni else ["single_node_tp"]


def strategy_supported(recipe: Recipe, strategy: str, hardware: HardwareProfile) -> bool:
    """Whether a strategy may be used on this hardware: its gate there, else the general list."""
    gate = for_hardware(recipe.strategy_hardware.get(strategy), hardware)
    if gate is not None:
        return gate != "unsupported"
    if strategy in recipe.compatible_strategies:
        return True
    return recipe.omni is not None and strategy in offered_strategies(recipe)


def recommended_strategy(
    recipe: Recipe, variant: str, hardware: HardwareProfile, nodes: int | None = None
) -> str:
    """The strategy for a number of nodes: the recipe's default, else tensor parallelism.

    `nodes` None means as many as the variant's memory asks for.
    """
    offered = [
        name for name in offered_strategies(recipe) if strategy_supported(recipe, name, hardware)
    ]
    count = nodes or minimum_nodes(recipe, variant, hardware)
    default = recipe.default_strategy
    if default in offered:
        if count <= 1 or not default.startswith("single_node_"):
            return default
        sibling = default.replace("single_node_", "multi_node_", 1)
        if sibling in offered:
            return sibling
    if count > 1:
        for name in _MULTI_NODE_ORDER:
            if name in offered:
                return name
    if "single_node_tp" in offered or not offered:
        return "single_node_tp"
    return offered[0]


def minimum_nodes(recipe: Recipe, variant: str, hardware: HardwareProfile) -> int:
    """Nodes that the variant's declared memory asks for; 1 where hosts cannot be joined."""
    memory = variant_memory(recipe.variants[variant], hardware)
    if not memory or not hardware.vram_gb or not hardware.scalable:
        return 1
    return max(1, math.ceil(memory / hardware.vram_gb))


def variant_memory(variant: Variant, hardware: HardwareProfile) -> float | None:
    """The memory in GB that a variant needs at least, over all GPUs."""
    exact = variant.hardware_overrides.get(hardware.name)
    if exact and exact.vram_minimum_gb is not None:
        return exact.vram_minimum_gb
    return variant.vram_minimum_gb


def recommended_tensor_size(
    recipe: Recipe, variant: Variant, strategy: str, hardware: HardwareProfile
) -> int | None:
    """The tensor size on one node under single_node_tp; None under any other strategy.

    The variant's, else the recipe's for the strategy, else 1 when the variant fits on one GPU,
    else all GPUs. A size above the GPU count is cut down to it, except on CPUs, whose count of
    devices is only nominal.
    """
    if strategy != "single_node_tp":
        return None
    override = recipe.strategy_overrides.get(strategy) or StrategyOverride()
    for declared in (sized(variant.tp, hardware), sized(override.tp, hardware)):
        if declared and declared > 0:
            on_cpu = hardware.generation == "cpu"
            return declared if on_cpu else min(declared, hardware.gpu_count)
    if recipe.omni:
        return 1
    per_gpu = hardware.vram_gb / hardware.gpu_count
    needed = variant.vram_minimum_gb
    return 1 if needed and per_gpu > 0 and needed <= per_gpu else hardware.gpu_count


def minimum_gpus(recipe: Recipe, strategy: str, hardware: HardwareProfile) -> int:
    """The fewest GPUs that the recipe asks for (`strategy_min_gpus`); 0 when it says nothing.

    The map holds floors by strategy, and by exact hardware (one number, or again by strategy);
    the highest counts.
    """
    declared = recipe.strategy_min_gpus
    if declared is None or isinstance(declared, int):
        return declared or 0
    floors = [declared.get(strategy, 0), declared.get(hardware.name, 0)]
    return max(floor.get(strategy, 0) if isinstance(floor, dict) else floor for floor in floors)


def recommended_hardware(
    recipe: Recipe, variant: Variant, profiles: Mapping[str, HardwareProfile]
) -> str | None:
    """The hardware to show when none is named: the recipe's default, else H200 where it runs.

    None when no known profile can run the variant.
    """
    constraint = precision_constraint(variant)
    usable = [
        name for name, profile in profiles.items() if variant_usable(recipe, variant, profile)
    ]
    preferred = [recipe.meta.default_hardware]
    if constraint and constraint.generation == "blackwell":
        preferred += ["b200", "gb200"]
    for name in [*preferred, "h200"]:
        if name in usable:
            return name
    brands = {"NVIDIA": 0, "AMD": 1}
    usable.sort(key=lambda name: (brands.get(profiles[name].brand, 9), name))
    return usable[0] if usable else None
