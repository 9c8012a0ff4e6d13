"""Arithmetic of parallel sizes: what the user or the recipe fixed is a hard constraint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from orchestrator.errors import PlanError
from orchestrator.topology.layout import Slot

LoadBalancing = Literal["hybrid", "internal", "external"]


class UnworkableSizes(PlanError):
    """Parallel sizes that cannot be here, where other sizes may."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """Sizes that the user or the recipe fixed; None leaves one to the strategy."""

    tensor: int | None = None
    pipeline: int | None = None
    data: int | None = None
    prefill_context: int = 1
    decode_context: int = 1


@dataclass(frozen=True, slots=True)
class Wiring:
    """How the nodes of a replica find each other, and what else shapes their flags."""

    master_port: int
    rpc_port: int
    load_balancing: LoadBalancing | None = None
    expert_parallel: bool = False


def common_gpu_count(slots: Sequence[Slot]) -> int:
    """The GPU count that all `slots` share; PlanError when they differ.

    `--nnodes` needs the same count on every node (0.33.0): ranks are dealt in equal blocks.
    """
    counts = {len(slot.gpus) for slot in slots}
    if len(counts) > 1:
        shown = ", ".join(f"{slot.host} {len(slot.gpus)}" for slot in slots)
        raise UnworkableSizes(
            f"the nodes of one replica have unequal GPU counts: {shown}",
            why="vLLM deals world size / nodes ranks to every node",
            hint=f"limit them to the same GPUs with orc_gpus ({min(counts)} each would work), "
            "or fix parallel.tensor and parallel.pipeline",
        )
    return counts.pop()


def check_fits(gpus_per_node: int, slots: Sequence[Slot], equation: str) -> None:
    """Refuse when a host has fewer GPUs than its share; PlanError names it."""
    for slot in slots:
        if len(slot.gpus) < gpus_per_node:
            raise UnworkableSizes(
                f"{equation} = {gpus_per_node} GPUs per node, but {slot.host} has "
                f"{len(slot.gpus)} to use",
                where=slot.host,
                hint="smaller parallel sizes, more nodes, or more of its GPUs in orc_gpus",
            )


def refuse_data_parallel(fixed: Fixed, strategy: str) -> None:
    """PlanError when data parallel was asked of a strategy that has none."""
    if fixed.data is not None and fixed.data > 1:
        raise PlanError(
            f"strategy {strategy} has no data parallel, but data = {fixed.data} was asked for",
            hint="use replicas, or a strategy with data parallel",
        )


def divide(total: int, by: int, equation: str) -> int:
    """total / by as a whole number; PlanError with `equation` when it is none."""
    if total % by:
        works = ", ".join(str(size) for size in range(1, total + 1) if total % size == 0)
        raise UnworkableSizes(
            f"{equation}: {total} % {by} = {total % by}",
            why="the parallel sizes must multiply to the GPUs used",
            hint=f"sizes that divide {total}: {works}",
        )
    return total // by
