"""Dense models whose data parallel vLLM refuses: they become independent replicas, or are refused.

External load balancing is refused for a dense model (0.33.0), and hybrid with one rank per node
becomes external and dies on every node with an AssertionError (0.32.0, measured; verl#6856).
Two or more ranks per node run. The follower of a dense rank over several nodes joins a group of
all ranks, its leader one of its own, so they never meet (read in 0.32.0).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.errors import PlanError
from orchestrator.topology.group import Group
from orchestrator.topology.layout import Slot
from orchestrator.topology.sizes import Fixed


@dataclass(frozen=True, slots=True)
class Independent:
    """Replicas of `nodes` nodes each, `factor` of them for every one that was asked for."""

    nodes: int
    factor: int
    fixed: Fixed
    note: str


def independent_replicas(
    replica: Sequence[Slot], fixed: Fixed, tensor_in_node: bool
) -> Independent | None:
    """What the data parallel of a dense model over `replica` becomes; None when it runs as it is.

    None also where its sizes do not come out even: the data-parallel arithmetic and
    `check_dense` refuse those. `tensor_in_node`: the strategy's tensor size is the node's GPU
    count unless fixed, else 1.
    """
    per_node = len(replica[0].gpus)
    if any(len(slot.gpus) != per_node for slot in replica):
        return None
    others = (fixed.pipeline or 1) * fixed.prefill_context
    tensor = fixed.tensor or (max(per_node // others, 1) if tensor_in_node else 1)
    unit = tensor * others
    if fixed.data is None and unit <= per_node // 2:
        return None
    within = max(unit // per_node, 1)
    if unit > per_node and (unit % per_node or len(replica) % within):
        return None
    if fixed.data not in (None, len(replica) // within):
        return None
    size = Fixed(
        tensor=tensor,
        pipeline=fixed.pipeline,
        prefill_context=fixed.prefill_context,
        decode_context=fixed.decode_context,
    )
    factor = len(replica) // within
    spans = f"spanning {within} nodes" if within > 1 else "one on each node"
    return Independent(
        nodes=within,
        factor=factor,
        fixed=size,
        note=f"a dense model cannot run data parallel with one rank per node or a rank over "
        f"several nodes: it becomes {factor} independent replicas, {spans}, behind a router",
    )


def check_dense(group: Group, model: str) -> None:
    """Refuse data parallel of a dense model that vLLM breaks on after the start.

    Raises PlanError naming the host.
    """
    ranks, unit = group.sizes.data, group.sizes.world // group.sizes.data
    if ranks == 1:
        return
    serving = [member for member in group.members if member.serves]
    for member in group.members:
        host = member.slot.host
        if len(member.gpus) < unit:
            raise PlanError(
                f"{model} is a dense model, and its data-parallel ranks of {unit} GPUs would span "
                f"nodes of {len(member.gpus)}",
                where=host,
                why="vLLM starts the ranks of a dense model as independent groups, which do not "
                "meet over nodes",
                hint="leave load_balancing out, and they become independent replicas",
            )
        if len(serving) > 1 and len(member.gpus) == unit:
            raise PlanError(
                f"{model} is a dense model, and {host} would serve one of its {ranks} "
                "data-parallel ranks alone",
                where=host,
                why="vLLM takes that for external load balancing, and refuses it for dense models",
                hint="two ranks or more on every node, load_balancing: internal, or replicas "
                "instead of data parallel",
            )
