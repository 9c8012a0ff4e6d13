"""Which hosts make up which replica."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from orchestrator.errors import PlanError
from orchestrator.topology.layout import Slot


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node of a replica runs: its host, and which of the host's GPUs it has."""

    host: str
    gpus: tuple[int, ...] = ()


# By replica, in order of its nodes.
Placement = Mapping[int, tuple[Place, ...]]
Replicas = list[tuple[Slot, ...]]


def replica_slots(
    slots: Sequence[Slot],
    nodes: int,
    replicas: int | Literal["max"],
    gpus: int | None = None,
    running: Placement | None = None,
) -> tuple[Replicas, tuple[str, ...]]:
    """Replica k is on hosts k * nodes to (k + 1) * nodes - 1, in inventory order.

    Single-node replicas of `gpus` GPUs share hosts when there are more of them than hosts: host
    by host, each filled before the next. Returns the slots of each replica, and the names of
    the hosts left over.

    A replica that is `running` stays where it is, whatever hosts were added or taken away, as
    long as the others find room around it. Raises PlanError when hosts are too few.
    """
    chosen = _in_order(slots, nodes, replicas, gpus)
    kept = _kept(slots, nodes, len(chosen), gpus, running or {})
    if kept:
        around = iter(_around(slots, nodes, len(chosen), gpus, kept))
        placed = [kept.get(number) or next(around, ()) for number in range(len(chosen))]
        chosen = placed if all(placed) else chosen
    used = {slot.host for replica in chosen for slot in replica}
    return chosen, tuple(slot.host for slot in slots if slot.host not in used)


def _in_order(
    slots: Sequence[Slot], nodes: int, replicas: int | Literal["max"], gpus: int | None
) -> Replicas:
    if nodes == 1 and gpus and (replicas == "max" or replicas > len(slots)):
        return _shared(slots, replicas, gpus)
    fitting = len(slots) // nodes
    count = fitting if replicas == "max" else replicas
    if count > fitting or count == 0:
        wanted = max(count, 1)
        raise PlanError(
            f"{wanted} replica{'s' * (wanted > 1)} x {nodes} node{'s' * (nodes > 1)} = "
            f"{wanted * nodes} hosts, but {len(slots)} {'is' if len(slots) == 1 else 'are'} there"
            + (f" ({', '.join(slot.host for slot in slots[:8])})" if slots else ""),
            hint="add hosts, or ask for fewer replicas or nodes",
        )
    return [tuple(slots[k * nodes : (k + 1) * nodes]) for k in range(count)]


def _kept(
    slots: Sequence[Slot], nodes: int, count: int, gpus: int | None, running: Placement
) -> dict[int, tuple[Slot, ...]]:
    """The replicas that run on as many hosts and GPUs as they are to have, none of them twice."""
    by_host = {slot.host: slot for slot in slots}
    kept: dict[int, tuple[Slot, ...]] = {}
    taken: set[tuple[str, int]] = set()
    for number, places in sorted(running.items()):
        if number >= count or len(places) != nodes or any(p.host not in by_host for p in places):
            continue
        replica = tuple(by_host[place.host] for place in places)
        if nodes == 1 and gpus:
            own = places[0].gpus
            if len(own) != gpus or not set(own) <= set(replica[0].gpus):
                continue
            replica = (replace(replica[0], gpus=own),)
        cells = {(slot.host, gpu) for slot in replica for gpu in slot.gpus}
        if not cells & taken:
            taken |= cells
            kept[number] = replica
    return kept


def _around(
    slots: Sequence[Slot],
    nodes: int,
    count: int,
    gpus: int | None,
    kept: Mapping[int, tuple[Slot, ...]],
) -> Replicas:
    """Room for replicas beside those that are `kept`: whole hosts, else parts of hosts."""
    used: dict[str, set[int]] = {}
    for replica in kept.values():
        for slot in replica:
            used.setdefault(slot.host, set()).update(slot.gpus)
    free = [slot for slot in slots if slot.host not in used and len(slot.gpus) >= (gpus or 1)]
    if nodes > 1 or not gpus or len(free) >= count - len(kept):
        return [tuple(free[k : k + nodes]) for k in range(0, len(free) - nodes + 1, nodes)]
    left = [
        replace(slot, gpus=tuple(gpu for gpu in slot.gpus if gpu not in used.get(slot.host, ())))
        for slot in slots
    ]
    return [(part,) for part in _parts(left, gpus)]


def _parts(slots: Sequence[Slot], gpus: int) -> list[Slot]:
    """The slots cut into parts of `gpus` GPUs."""
    return [
        replace(slot, gpus=slot.gpus[first : first + gpus])
        for slot in slots
        for first in range(0, len(slot.gpus) - gpus + 1, gpus)
    ]


def _shared(slots: Sequence[Slot], replicas: int | Literal["max"], gpus: int) -> Replicas:
    parts = _parts(slots, gpus)
    count = len(parts) if replicas == "max" else replicas
    if count > len(parts) or count == 0:
        room = ", ".join(f"{slot.host} {len(slot.gpus)} // {gpus}" for slot in slots[:8])
        raise PlanError(
            f"{max(count, 1)} replicas x {gpus} GPUs do not fit: there is room for {len(parts)} "
            f"({room})",
            hint="fewer replicas, a smaller tensor size, or more hosts",
        )
    return [(slot,) for slot in parts[:count]]
