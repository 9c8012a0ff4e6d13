"""Dense models whose data parallel vLLM refuses: they become independent replicas.

External load balancing is refused for a dense model (0.33.0), and hybrid with one rank per node
becomes external and dies on every node with an AssertionError (0.32.0, measured; verl#6856).
Two or more ranks per node run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.topology.layout import Slot
from orchestrator.topology.sizes import Fixed, common_gpu_count


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

    `tensor_in_node`: the strategy's tensor size is the node's GPU count unless fixed, else 1.
    """
    per_node = common_gpu_count(replica)
    others = (fixed.pipeline or 1) * fixed.prefill_context
    tensor = fixed.tensor or (max(per_node // others, 1) if tensor_in_node else 1)
    unit = tensor * others
    if unit <= per_node // 2:
        return None
    within = max(unit // per_node, 1)
    if unit > per_node and (unit % per_node or len(replica) % within):
        return None  # the data-parallel arithmetic refuses it with its own equation
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
