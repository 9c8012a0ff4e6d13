"""Arithmetic of parallel sizes: what the user or the recipe fixed is a hard constraint."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from orchestrator.errors import PlanError
from orchestrator.topology.layout import Slot

LoadBalancing = Literal["hybrid", "internal", "external"]


_MOST_LISTED = 12


@dataclass(frozen=True, slots=True)
class Offer:
    """Values of one setting that would mend a refusal as far as its own rule goes.

    `setting` is a field of the deployment (`nodes`, `parallel.tensor`), or `orc_gpus` (of every
    host) or `num_redundant_experts`. `words` has {} where the values go; of many, those around
    `asked` are listed.
    """

    setting: str
    values: tuple[int, ...]
    words: str
    asked: int = 0

    def text(self) -> str:
        return self.words.format(listed(self.values, self.asked))


class UnworkableSizes(PlanError):
    """Parallel sizes that cannot be here, where other sizes may.

    Its hint says every one of `offers`, and `advice` that names no value. Before a user gets to
    see it, `alternatives` keeps of the offers what can be planned.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        why: str | None = None,
        hint: str | None = None,
        offers: Sequence[Offer] = (),
    ) -> None:
        self.advice, self.offers = hint, tuple(offers)
        texts = [*(offer.text() for offer in offers), *([hint] if hint else [])]
        super().__init__(what, where=where, why=why, hint="; ".join(texts) or None)


def listed(sizes: Iterable[int], asked: int = 0) -> str:
    """The sizes, of many those around the one that was asked for."""
    found = list(sizes)
    first, shown = around(found, asked)
    words = [*(["..."] if first else []), *map(str, shown)]
    return ", ".join(words + ["..."] * (first + len(shown) < len(found))) or "none"


def around(sizes: Sequence[int], asked: int) -> tuple[int, Sequence[int]]:
    """As many of the sizes as a message lists, around the one asked for, and where they begin."""
    below = sum(size < asked for size in sizes)
    first = max(0, min(below - _MOST_LISTED // 2, len(sizes) - _MOST_LISTED))
    return first, sizes[first : first + _MOST_LISTED]


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
            hint="hosts of as many GPUs",
            offers=[Offer("orc_gpus", (min(counts),), "limit them with orc_gpus to {} GPUs each")],
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


def divide(total: int, by: int, equation: str, setting: str | None = None) -> int:
    """total / by as a whole number; PlanError with `equation` when it is none.

    `setting` is what `by` is, where it is one setting alone.
    """
    if total % by:
        works = tuple(size for size in range(1, total + 1) if total % size == 0)
        words = f"{setting} that divides {total}: {{}}"
        raise UnworkableSizes(
            f"{equation}: {total} % {by} = {total % by}",
            why="the parallel sizes must multiply to the GPUs used",
            offers=[Offer(setting, works, words, by)] if setting else [],
        )
    return total // by
