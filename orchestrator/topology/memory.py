"""Whether a replica fits its GPUs: weights + KV cache of one sequence + overhead, by stage.

The numbers are estimates (their sources stand at `weights` and `kv_cache`), so only what
certainly does not fit is refused; what probably does not is a note.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from orchestrator.recipes.resolved import CommandParts, ResolvedRecipe
from orchestrator.topology.group import Group
from orchestrator.topology.kv_cache import KvCache, kv_cache
from orchestrator.topology.layout import GpuMemory, Layout, Sizes
from orchestrator.topology.sizes import UnworkableSizes
from orchestrator.topology.weights import Weights, weights

DEFAULT_UTILIZATION = 0.92  # vLLM's --gpu-memory-utilization (0.32.0, 0.33.0)

# Activations, CUDA graphs and the libraries' own memory. An allowance, not a measurement: a
# prefill of 8192 tokens of hidden size 8192 takes some 1 to 2 GiB, graphs and NCCL about as much.
OVERHEAD_GIB = 4.0
OVERHEAD_SHARE = 0.1  # of a small GPU
# A CUDA context with NCCL's first buffers: what no GPU is without.
LEAST_OVERHEAD_GIB = 0.5


@dataclass(frozen=True, slots=True)
class Stage:
    """The GPUs of one pipeline stage: their hosts, and GiB of the smallest (None: not known)."""

    hosts: tuple[str, ...]
    gpu_memory: float | None


@dataclass(frozen=True, slots=True)
class MemoryModel:
    """What is known of one engine's memory; all of it None where nothing is."""

    weights: Weights | None
    kv_cache: KvCache | None
    utilization: float
    layers: int | None
    longest: int | None = None  # tokens of a sequence that the model was made for


def memory_model(recipe: ResolvedRecipe, parts: CommandParts) -> MemoryModel | None:
    """The memory of one engine of `recipe`. None on a CPU, where vLLM counts otherwise."""
    if recipe.hardware.generation == "cpu" or recipe.hardware.brand == "CPU":
        return None
    try:
        utilization = float(parts.value("--gpu-memory-utilization") or DEFAULT_UTILIZATION)
    except ValueError:
        return None
    return MemoryModel(
        weights=weights(recipe, parts),
        kv_cache=kv_cache(recipe, parts),
        utilization=utilization,
        layers=recipe.shape.layers,
        longest=recipe.context_length,
    )


def stages_of(group: Group) -> list[Stage]:
    """Each pipeline stage's hosts, over all data-parallel ranks, and its smallest GPU."""
    sizes = group.sizes
    width = sizes.tensor * sizes.prefill_context
    hosts: list[dict[str, float | None]] = [{} for _ in range(sizes.pipeline)]
    for member in group.members:
        first, last = member.first, member.first + len(member.gpus) - 1
        for rank in range(first // width, last // width + 1):
            hosts[rank % sizes.pipeline][member.slot.host] = member.slot.gpu_memory
    stages = []
    for found in hosts:
        known = [gib for gib in found.values() if gib is not None]
        smallest = min(known) if known and len(known) == len(found) else None
        stages.append(Stage(tuple(found), smallest))
    return stages


def overhead_of(gpu_memory: float) -> float:
    """The allowance beside weights and KV cache in GiB."""
    return min(OVERHEAD_GIB, OVERHEAD_SHARE * gpu_memory)


def stage_memory(
    model: MemoryModel,
    sizes: Sizes,
    stages: Sequence[Stage],
    split: Sequence[int] | None,
    pool: str,
) -> list[GpuMemory]:
    """The estimate for one GPU of each stage, whose layers are `split` (None: not known).

    A stage's weights are in proportion to its layers. Stages of unknown memory are left out.
    """
    found = []
    for index, stage in enumerate(stages):
        if stage.gpu_memory is None:
            continue
        layers = split[index] if split else None
        share = layers / sum(split) if split and layers else 1 / sizes.pipeline
        cache = model.kv_cache
        of_stage = (model.layers or 0) * share
        found.append(
            GpuMemory(
                pool=pool,
                stage=index,
                hosts=stage.hosts,
                layers=layers,
                usable=stage.gpu_memory * model.utilization,
                overhead=overhead_of(stage.gpu_memory),
                weights=model.weights.of_gpu(sizes, share) if model.weights else None,
                least_weights=model.weights.least_of_gpu(sizes, share) if model.weights else None,
                kv_cache=cache.of_gpu(sizes, of_stage) if cache and of_stage else None,
                context=cache.context if cache else None,
            )
        )
    return found


def check_memory(
    model: MemoryModel,
    found: Sequence[GpuMemory],
    name: str,
    *,
    insist: bool = False,
) -> list[str]:
    """Notes on what probably does not fit, or certainly where the user wants it to `insist`.

    Raises UnworkableSizes, with the sum of every stage, when the least that the weights come to
    and the least overhead are more than a stage's GPUs may take.
    """
    over = [one for one in found if _least(one) > one.usable]
    if over and model.weights:
        lines = "; ".join(f"{_place(one, found)}{least_text(one)}" for one in found)
        what = f"the weights of {name} do not fit: {lines}"
        if insist:
            return [f"{what}; check_memory is false, so they are tried all the same"]
        raise UnworkableSizes(
            what,
            why=f"by {model.weights.source} they are about {model.weights.total:.1f} GiB, and "
            f"{model.weights.least:.1f} GiB at least; vLLM may take {model.utilization:g} of a "
            "GPU's memory",
            hint=f"{_gpus_that_hold(model.weights, over)}, or a variant with smaller weights; "
            "check_memory: false plans it all the same",
        )
    notes = []
    for one in found:
        if one.left is not None and one.left < 0:
            notes.append(
                f"memory is short by estimate: {_place(one, found)}{sum_text(one)}"
                + _advice(one, model.longest)
            )
            break  # one is enough to say so
    return notes


def memory_lines(layout: Layout) -> list[str]:
    """The estimate for a GPU of every kind of stage, a line each."""
    lines = []
    for one in layout.memory:
        alike = [other for other in layout.memory if other.pool == one.pool]
        left = "" if one.left is None else f", {one.left:.1f} left"
        if one.left is not None and one.left < 0:
            left = f", short by {-one.left:.1f}"
        lines.append(f"memory of a GPU: {_place(one, alike)}{sum_text(one)}{left}")
    return lines


def tightest(found: Iterable[GpuMemory]) -> GpuMemory | None:
    """The estimate with the least left; None where nothing is known."""
    known = [one for one in found if one.left is not None]
    return min(known, key=lambda one: one.left or 0.0, default=None)


def sum_text(one: GpuMemory) -> str:
    """`weights 37.2 + KV cache 3.1 (1 sequence of 262144) + overhead 4.0 = 44.3 of 129.7 ...`."""
    known = one.weights is not None
    terms = [f"weights {one.weights:.1f}" if known else "weights (not known)"]
    if one.kv_cache is not None:
        terms.append(f"KV cache {one.kv_cache:.1f} (1 sequence of {one.context})")
    terms.append(f"overhead {one.overhead:.1f}")
    total = f" = {one.needed:.1f} of {one.usable:.1f} GiB usable"
    return " + ".join(terms) + (total if known else f", of {one.usable:.1f} GiB usable")


def least_text(one: GpuMemory) -> str:
    """The sum that a refusal rests on."""
    return (
        f"weights {one.least_weights or 0:.1f} at least + overhead {LEAST_OVERHEAD_GIB} = "
        f"{_least(one):.1f} of {one.usable:.1f} GiB usable"
    )


def _least(one: GpuMemory) -> float:
    return (one.least_weights or 0.0) + LEAST_OVERHEAD_GIB


def _gpus_that_hold(weights: Weights, over: Sequence[GpuMemory]) -> str:
    """How many GPUs, such as those that are too small, hold the weights once."""
    room = min(one.usable for one in over) - LEAST_OVERHEAD_GIB + weights.offloaded
    if room <= 0:
        return "larger GPUs"
    return f"{math.ceil(weights.least / room)} such GPUs or more for a replica"


def _place(one: GpuMemory, found: Sequence[GpuMemory]) -> str:
    """Which pool, and which stage, where there are several."""
    pool = f"{one.pool}: " if one.pool else ""
    if len(found) == 1:
        return pool
    layers = f", {one.layers} layers" if one.layers else ""
    shown = ", ".join(one.hosts[:4]) + (", ..." if len(one.hosts) > 4 else "")
    return f"{pool}stage {one.stage} ({shown}{layers}): "


def _advice(one: GpuMemory, longest: int | None) -> str:
    """What would make it fit: a shorter context when the weights leave room for one.

    Not more than the model's own `longest`, though the user's may be above it.
    """
    room = one.usable - one.overhead - (one.weights or 0.0)
    if room <= 0 or not one.kv_cache or not one.context:
        return ""
    length = int(one.context * room / one.kv_cache) // 1024 * 1024
    length = min(length, longest or length)
    return f"; a max-model-len of {length} would fit" if length else ""
