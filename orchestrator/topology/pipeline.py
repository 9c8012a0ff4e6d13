"""How the layers of a model are split over pipeline stages."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.errors import PlanError


def vllm_layer_split(layers: int, stages: int) -> tuple[int, ...]:
    """Layers per stage as vLLM splits them when nothing is said (read in 0.33.0).

    Even; the remainder goes one each to the stages before the last, counting backwards, since
    the last stage also holds the head: 61 layers over 4 stages are 15, 15, 16, 15.
    """
    even, remainder = divmod(layers, stages)
    split = [even] * stages
    for back in range(2, remainder + 2):
        split[-back] += 1
    return tuple(split)


def layer_ranges(split: tuple[int, ...]) -> list[tuple[int, int]]:
    """The half-open range of layers that each stage holds."""
    ranges, first = [], 0
    for count in split:
        ranges.append((first, first + count))
        first += count
    return ranges


def check_partition(partition: tuple[int, ...], stages: int, layers: int | None) -> None:
    """Refuse a layer partition that vLLM would only reject inside its workers, after the start.

    Raises PlanError with the equation.
    """
    shown = ",".join(map(str, partition))
    if len(partition) != stages:
        raise PlanError(
            f"layer partition {shown} has {len(partition)} numbers for {stages} pipeline stages",
            hint=f"give {stages} numbers, one for each stage",
        )
    if any(count < 1 for count in partition):
        raise PlanError(
            f"layer partition {shown} leaves a stage without a layer",
            hint="every stage needs at least one layer",
        )
    if layers is not None and sum(partition) != layers:
        equation = " + ".join(map(str, partition))
        split = ",".join(map(str, vllm_layer_split(layers, stages)))
        raise PlanError(
            f"layer partition {equation} = {sum(partition)}, but the model has {layers} layers",
            hint=f"vLLM's own split is {split}",
        )


def split_by_memory(layers: int, memory: Sequence[float]) -> tuple[int, ...]:
    """`layers` over stages in proportion to the `memory` of each, one layer at least (vllm#12895).

    Needs as many layers as stages.
    """
    whole = sum(memory)
    shares = [layers * size / whole for size in memory]
    split = [max(int(share), 1) for share in shares]
    while (missing := layers - sum(split)) != 0:
        step = 1 if missing > 0 else -1
        able = [stage for stage in range(len(split)) if step > 0 or split[stage] > 1]
        # The stage that is furthest from its share; of several the first.
        stage = max(able, key=lambda one: step * (shares[one] - split[one]))
        split[stage] += step
    return tuple(split)
