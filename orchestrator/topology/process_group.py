"""Tensor and pipeline parallel: one process group, on one node or over several."""

from __future__ import annotations

from orchestrator.topology.flags import node_flags, size_flags
from orchestrator.topology.group import Group, Member
from orchestrator.topology.layout import Sizes, Slot
from orchestrator.topology.sizes import (
    Fixed,
    Wiring,
    check_fits,
    common_gpu_count,
    divide,
    refuse_data_parallel,
)


def tensor_parallel(replica: tuple[Slot, ...], fixed: Fixed, wiring: Wiring) -> Group:
    """Tensor parallel over all GPUs of all nodes; pipeline only where it is asked for."""
    refuse_data_parallel(fixed, "tensor parallel")
    pipeline = fixed.pipeline or 1
    others = pipeline * fixed.prefill_context
    tensor = fixed.tensor
    if tensor is None:
        total = len(replica) * common_gpu_count(replica)
        equation = f"tensor = {total} GPUs / {_others(fixed, pipeline)}"
        tensor = divide(total, others, equation, _alone(fixed, "parallel.pipeline"))
    return process_group(replica, _sizes(tensor, pipeline, fixed, wiring), wiring)


def tensor_and_pipeline(replica: tuple[Slot, ...], fixed: Fixed, wiring: Wiring) -> Group:
    """Tensor parallel inside a node, pipeline parallel across nodes."""
    refuse_data_parallel(fixed, "tensor and pipeline parallel")
    tensor, pipeline = fixed.tensor, fixed.pipeline
    if tensor is None or pipeline is None:
        per_node = common_gpu_count(replica)
        total = len(replica) * per_node
        context = fixed.prefill_context
        if tensor is not None:
            equation = f"pipeline = {total} GPUs / {_others(fixed, tensor, 'tensor')}"
            pipeline = divide(total, tensor * context, equation, _alone(fixed, "parallel.tensor"))
        elif pipeline is not None:
            equation = f"tensor = {total} GPUs / {_others(fixed, pipeline)}"
            tensor = divide(total, pipeline * context, equation, _alone(fixed, "parallel.pipeline"))
        else:
            pipeline = len(replica)
            equation = f"tensor = {per_node} GPUs per node / prefill context {context}"
            tensor = divide(per_node, context, equation, "parallel.prefill_context")
    return process_group(replica, _sizes(tensor, pipeline, fixed, wiring), wiring)


def process_group(replica: tuple[Slot, ...], sizes: Sizes, wiring: Wiring) -> Group:
    """`sizes` over the nodes of `replica` in equal blocks; only the head answers HTTP."""
    nodes = len(replica)
    shown = f"tensor {sizes.tensor} x pipeline {sizes.pipeline}"
    if sizes.prefill_context > 1:
        shown += f" x prefill context {sizes.prefill_context}"
    per_node = divide(sizes.world, nodes, f"{shown} over {nodes} nodes", "nodes")
    check_fits(per_node, replica, f"{shown} / {nodes} node{'s' * (nodes > 1)}")
    head = replica[0].address or ""
    members = []
    for rank, slot in enumerate(replica):
        flags = size_flags(sizes)
        if nodes > 1:
            flags += node_flags(nodes, rank, head, wiring.master_port)
        if rank > 0:
            flags += ("--headless",)
        ports = {"master": wiring.master_port} if nodes > 1 and rank == 0 else {}
        members.append(
            Member(slot, slot.gpus[:per_node], rank * per_node, flags, rank == 0, ports=ports)
        )
    return Group(sizes, tuple(members))


def _sizes(tensor: int, pipeline: int, fixed: Fixed, wiring: Wiring) -> Sizes:
    return Sizes(
        tensor=tensor,
        pipeline=pipeline,
        prefill_context=fixed.prefill_context,
        decode_context=fixed.decode_context,
        expert_parallel=wiring.expert_parallel,
    )


def _alone(fixed: Fixed, setting: str) -> str | None:
    """The setting, where GPUs are divided by nothing else."""
    return setting if fixed.prefill_context == 1 else None


def _others(fixed: Fixed, size: int, name: str = "pipeline") -> str:
    context = fixed.prefill_context
    return f"{name} {size}" + (f" / prefill context {context}" if context > 1 else "")
