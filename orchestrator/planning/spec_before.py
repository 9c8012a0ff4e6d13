"""Which containers of a replica belong to the spec before a roll, however far the roll got. Pure.

A roll, and the way back, can end between any two steps, and on one host sooner than on another.
So a name alone does not say which spec a container has: the ranks do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from orchestrator.runtime.container import AFTER, BEFORE
from orchestrator.runtime.containers import ContainerState

Place = tuple[str, str]  # a host, and a container's name without the suffix of a roll


@dataclass(frozen=True, slots=True)
class SpecBefore:
    """`old`: the containers of the spec before, put aside or not; none where there is nothing to
    go back to. `newer`: what stands in their place or beside them. `missing`: its ranks that no
    container has, so that it cannot be started; under prefill/decode only how many is known, and
    they are given the numbers behind."""

    old: tuple[ContainerState, ...] = ()
    newer: tuple[ContainerState, ...] = ()
    missing: tuple[int, ...] = ()

    @property
    def places(self) -> tuple[Place, ...]:
        """Where its ranks are."""
        return tuple(dict.fromkeys(map(place, self.old)))


def spec_before(present: Iterable[ContainerState], aside: Iterable[ContainerState]) -> SpecBefore:
    """Of one replica: `present` is what has its own name, `aside` what a roll has put aside.

    Not yet put aside, or gone back already, is what has a rank of the spec before that no
    container put aside has.
    """
    present, aside = tuple(present), tuple(aside)
    before = [state for state in aside if state.name.endswith(BEFORE)]
    after = {place(state) for state in aside if state.name.endswith(AFTER)}
    back = [state for state in present if place(state) in after]
    if not before and all(state.running for state in back):
        return SpecBefore()  # also when all of it has gone back, and runs
    places = {place(state) for state in before}
    old = [state for state in back if place(state) not in places]
    ranks = {_rank(state) for state in (*before, *old)}
    nodes = max(state.nodes for state in (*before, *old))
    for state in present:
        fits = state.rank < nodes and len(ranks) < nodes
        if fits and _rank(state) not in ranks and place(state) not in places:
            old.append(state)
            ranks.add(_rank(state))
    old_ids = {state.id for state in old}
    return SpecBefore(
        (*before, *old),
        tuple(state for state in present if state.id not in old_ids),
        _missing(ranks, nodes),
    )


def stale(
    present: Iterable[ContainerState], aside: Iterable[ContainerState]
) -> tuple[ContainerState, ...]:
    """What an earlier roll has put aside and is of no use once `present`, which is whole, is put
    aside itself: with other hosts or fewer ranks it would be taken for a part of it."""
    present = tuple(present)
    places = {place(state) for state in present}
    nodes = max((state.nodes for state in present), default=1)
    whole = not _missing({_rank(state) for state in present}, nodes)
    return tuple(state for state in aside if whole and place(state) not in places)


def _rank(state: ContainerState) -> tuple[str, int]:
    """A rank within its replica: each pool of prefill/decode counts its own from 0."""
    return state.role if state.role in ("prefill", "decode") else "", state.rank


def _missing(ranks: Collection[tuple[str, int]], nodes: int) -> tuple[int, ...]:
    if any(pool for pool, _ in ranks):
        return tuple(range(len(ranks), nodes))
    return tuple(sorted(set(range(nodes)) - {number for _, number in ranks}))


def place(state: ContainerState) -> Place:
    """Where a container is, or was before a roll put it aside."""
    return state.host, state.name.removesuffix(BEFORE).removesuffix(AFTER)
