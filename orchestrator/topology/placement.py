"""Which hosts make up which replica."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from orchestrator.errors import PlanError
from orchestrator.topology.ip_address import ip_address
from orchestrator.topology.layout import Slot


def replica_slots(
    slots: Sequence[Slot],
    nodes: int,
    replicas: int | Literal["max"],
    gpus: int | None = None,
) -> tuple[list[tuple[Slot, ...]], tuple[str, ...]]:
    """Replica k is on hosts k * nodes to (k + 1) * nodes - 1, in inventory order.

    Single-node replicas of `gpus` GPUs share hosts when there are more of them than hosts: host
    by host, each filled before the next. Returns the slots of each replica, and the names of
    the hosts left over. A host added at the end moves no replica that had to share, and none
    that did not. Raises PlanError when hosts are too few.
    """
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
    chosen = [tuple(slots[k * nodes : (k + 1) * nodes]) for k in range(count)]
    return chosen, tuple(slot.host for slot in slots[count * nodes :])


def _shared(
    slots: Sequence[Slot], replicas: int | Literal["max"], gpus: int
) -> tuple[list[tuple[Slot, ...]], tuple[str, ...]]:
    parts = [
        replace(slot, gpus=slot.gpus[first : first + gpus])
        for slot in slots
        for first in range(0, len(slot.gpus) - gpus + 1, gpus)
    ]
    count = len(parts) if replicas == "max" else replicas
    if count > len(parts) or count == 0:
        room = ", ".join(f"{slot.host} {len(slot.gpus)} // {gpus}" for slot in slots[:8])
        raise PlanError(
            f"{max(count, 1)} replicas x {gpus} GPUs do not fit: there is room for {len(parts)} "
            f"({room})",
            hint="fewer replicas, a smaller tensor size, or more hosts",
        )
    chosen = parts[:count]
    used = {slot.host for slot in chosen}
    return [(slot,) for slot in chosen], tuple(s.host for s in slots if s.host not in used)


def check_addresses(replica: Sequence[Slot]) -> None:
    """Refuse data-plane addresses over which several nodes cannot meet.

    A loopback one is vLLM's own default and fails late (vllm#7074); a shared one means that
    two names are one machine. Raises PlanError naming host and address.
    """
    for slot in replica:
        if slot.address is None:
            raise PlanError(
                f"no data-plane address of {slot.host} is known",
                where=slot.host,
                why="the nodes of a replica meet at the head's address",
                hint="set orc_address (or ansible_host to an IP address) in the inventory, "
                "or gather facts",
            )
        if _is_loopback(slot.address):
            raise PlanError(
                f"the data-plane address of {slot.host} is {slot.address}, a loopback address",
                where=slot.host,
                why="the other nodes of the replica cannot reach it",
                hint="set orc_address to the address of the data-plane interface",
            )
    for address, count in Counter(slot.address for slot in replica).items():
        if count > 1:
            names = ", ".join(slot.host for slot in replica if slot.address == address)
            raise PlanError(
                f"{names} have the same data-plane address {address}",
                why="each node of a replica needs an address of its own",
                hint="correct orc_address or ansible_host",
            )


def _is_loopback(address: str) -> bool:
    parsed = ip_address(address)
    if parsed is None:
        return address == "localhost" or address.startswith("localhost.")
    return parsed.is_loopback
