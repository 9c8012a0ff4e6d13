"""Data parallel on one node and over nodes: internal, hybrid and external load balancing, nested.

Sources: vLLM 0.33.0's argument handling; #44718; gpustack#6221 (a start rank on a serving node,
even 0, silently means hybrid load balancing).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import gcd

from orchestrator.topology.flags import data_flags, node_flags, size_flags
from orchestrator.topology.group import Group, Member
from orchestrator.topology.layout import Sizes, Slot
from orchestrator.topology.sizes import (
    Fixed,
    Offer,
    UnworkableSizes,
    Wiring,
    common_gpu_count,
    divide,
)


def data_and_expert(replica: tuple[Slot, ...], fixed: Fixed, wiring: Wiring) -> Group:
    """Data parallel with one GPU per rank unless a tensor size is fixed; hybrid over nodes."""
    return data_parallel(replica, fixed, fixed.tensor or 1, wiring, "hybrid")


def tensor_and_data(replica: tuple[Slot, ...], fixed: Fixed, wiring: Wiring) -> Group:
    """Tensor parallel inside a node, data parallel across nodes, behind one endpoint.

    Uneven nodes hold uneven numbers of ranks of the largest size that fills them all.
    """
    tensor = fixed.tensor
    if tensor is None:
        others = (fixed.pipeline or 1) * fixed.prefill_context
        per_node = gcd(*(len(slot.gpus) for slot in replica))
        alone = "parallel.pipeline" if fixed.prefill_context == 1 else None
        tensor = divide(per_node, others, f"tensor = {per_node} GPUs per node / {others}", alone)
    return data_parallel(replica, fixed, tensor, wiring, "internal")


def data_parallel(
    replica: tuple[Slot, ...], fixed: Fixed, tensor: int, wiring: Wiring, default: str
) -> Group:
    """The group of `replica` with ranks of `tensor` (x pipeline x prefill context) GPUs each.

    Raises PlanError with the equation when the GPUs do not come out even.
    """
    unit = tensor * (fixed.pipeline or 1) * fixed.prefill_context
    if len(replica) > 1 and unit > max(len(slot.gpus) for slot in replica):
        return _nested(replica, fixed, tensor, unit, wiring)
    local = local_sizes(replica, unit, fixed.data)
    sizes = _sizes(tensor, sum(local), fixed, wiring)
    balancing = wiring.load_balancing or default
    if balancing == "external":
        return _external(replica, local, unit, sizes, wiring)
    if len(replica) == 1:
        slot = replica[0]
        flags = (*size_flags(sizes), "--data-parallel-size", str(sizes.data))
        return Group(sizes, (Member(slot, slot.gpus[: sizes.world], 0, flags, serves=True),))
    return _over_nodes(replica, local, unit, sizes, wiring, hybrid=balancing == "hybrid")


def local_sizes(replica: Sequence[Slot], unit: int, data: int | None) -> list[int]:
    """How many data-parallel ranks of `unit` GPUs each node holds; they may be uneven.

    `data` is their number where it is fixed: shared out evenly where that fits, else filled in
    host order. Raises PlanError with the equation.
    """
    room = [len(slot.gpus) // unit for slot in replica]
    for slot, ranks in zip(replica, room, strict=True):
        if ranks == 0:
            raise UnworkableSizes(
                f"a data-parallel rank takes {unit} GPUs, but {slot.host} has {len(slot.gpus)}",
                where=slot.host,
                hint="a smaller tensor or pipeline size, or more of its GPUs in orc_gpus",
            )
    if data is None:
        for slot in replica:
            count = len(slot.gpus)
            if count % unit:
                raise UnworkableSizes(
                    f"ranks on {slot.host} = {count} GPUs / {unit} each: "
                    f"{count} % {unit} = {count % unit}",
                    why="the parallel sizes must multiply to the GPUs used",
                    offers=[Offer("parallel.data", (sum(room),), "data: {} leaves GPUs idle")],
                )
        return room
    if data > sum(room):
        shown = " + ".join(map(str, room))
        raise UnworkableSizes(
            f"data = {data} ranks of {unit} GPUs = {data * unit} GPUs, but the hosts have room "
            f"for {shown}{f' = {sum(room)}' if len(room) > 1 else ''} ranks",
            hint="more hosts",
            offers=[Offer("parallel.data", (sum(room),), "data: {}")],
        )
    if data < len(replica):
        raise UnworkableSizes(
            f"data = {data} ranks over {len(replica)} nodes leave a node without one",
            offers=[
                Offer("nodes", (data,), "nodes: {}"),
                Offer("parallel.data", (len(replica),), "data: {} at least"),
            ],
        )
    even = data // len(replica)
    if data % len(replica) == 0 and even <= min(room):
        return [even] * len(replica)
    local, left = [], data
    for index, ranks in enumerate(room):
        keep = len(room) - index - 1  # at least one for each node that follows
        take = min(ranks, left - keep)
        local.append(take)
        left -= take
    return local


def _over_nodes(
    replica: tuple[Slot, ...],
    local: list[int],
    unit: int,
    sizes: Sizes,
    wiring: Wiring,
    hybrid: bool,
) -> Group:
    """Internal: the head alone serves, has no start rank, and the others are headless.
    Hybrid: every node serves, has a start rank and is never headless."""
    head = replica[0].address or ""
    members = []
    for index, (slot, ranks, start) in enumerate(zip(replica, local, _starts(local), strict=True)):
        flags = size_flags(sizes)
        if hybrid:
            flags += ("--data-parallel-hybrid-lb",)
        flags += data_flags(sizes, head, wiring.rpc_port)
        flags += ("--data-parallel-size-local", str(ranks))
        if hybrid or index > 0:
            flags += ("--data-parallel-start-rank", str(start))
        if index > 0 and not hybrid:
            flags += ("--headless",)
        members.append(
            Member(
                slot,
                slot.gpus[: ranks * unit],
                start * unit,
                flags,
                serves=hybrid or index == 0,
                ports={} if index else {"data_parallel_rpc": wiring.rpc_port},
            )
        )
    return Group(sizes, tuple(members))


def _external(
    replica: tuple[Slot, ...], local: list[int], unit: int, sizes: Sizes, wiring: Wiring
) -> Group:
    """One server per rank, each with a port of its own on its host."""
    head = replica[0].address or "127.0.0.1"
    members: list[Member] = []
    for slot, ranks in zip(replica, local, strict=True):
        for index in range(ranks):
            rank = len(members)
            flags = size_flags(sizes) + data_flags(sizes, head, wiring.rpc_port)
            flags += ("--data-parallel-rank", str(rank))
            members.append(
                Member(
                    slot,
                    slot.gpus[index * unit : (index + 1) * unit],
                    rank * unit,
                    flags,
                    serves=True,
                    ports={} if rank else {"data_parallel_rpc": wiring.rpc_port},
                )
            )
    return Group(sizes, tuple(members))


def _nested(
    replica: tuple[Slot, ...], fixed: Fixed, tensor: int, unit: int, wiring: Wiring
) -> Group:
    """One data-parallel rank over several nodes: no start rank, no local size (vLLM infers both).

    `nnodes_within_dp = nnodes // (dp // dp_local)` must divide (0.33.0).
    """
    nodes, per_node = len(replica), common_gpu_count(replica)
    if unit % per_node:
        raise UnworkableSizes(
            f"a data-parallel rank of {unit} GPUs does not fill nodes of {per_node} GPUs: "
            f"{unit} % {per_node} = {unit % per_node}",
            hint="a rank fills its nodes, or several ranks fill one",
        )
    within = unit // per_node
    data = divide(nodes, within, f"data = {nodes} nodes / {within} nodes per rank")
    if fixed.data not in (None, data):
        raise UnworkableSizes(
            f"data = {fixed.data} was asked for, but {nodes} nodes / {within} nodes per rank = "
            f"{data}",
            offers=[
                Offer("parallel.data", (data,), "data: {}"),
                Offer("nodes", ((fixed.data or 1) * within,), "nodes: {}"),
            ],
        )
    sizes = _sizes(tensor, data, fixed, wiring)
    head = replica[0].address or ""
    members = []
    for index, slot in enumerate(replica):
        flags = size_flags(sizes) + node_flags(nodes, index, head, wiring.master_port)
        flags += data_flags(sizes, head, wiring.rpc_port)
        if index > 0:
            flags += ("--headless",)
        ports = {"master": wiring.master_port, "data_parallel_rpc": wiring.rpc_port}
        members.append(
            Member(
                slot, slot.gpus, index * per_node, flags, index == 0, ports={} if index else ports
            )
        )
    return Group(sizes, tuple(members))


def _sizes(tensor: int, data: int, fixed: Fixed, wiring: Wiring) -> Sizes:
    return Sizes(
        tensor=tensor,
        pipeline=fixed.pipeline or 1,
        data=data,
        prefill_context=fixed.prefill_context,
        decode_context=fixed.decode_context,
        expert_parallel=wiring.expert_parallel,
    )


def _starts(local: list[int]) -> list[int]:
    return [0, *accumulate(local[:-1])]
