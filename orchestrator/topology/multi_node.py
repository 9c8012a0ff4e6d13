"""Strategies whose replica spans nodes as one process group (`--nnodes`)."""

from __future__ import annotations

from orchestrator.topology.layout import Slot
from orchestrator.topology.ranks import Sizes
from orchestrator.topology.sizes import (
    Fixed,
    check_fits,
    common_gpu_count,
    divide,
    refuse_data_parallel,
)


def multi_node_tp(replica: tuple[Slot, ...], fixed: Fixed) -> Sizes:
    """Tensor parallel over all GPUs of all nodes."""
    refuse_data_parallel(fixed, "multi_node_tp")
    pipeline = fixed.pipeline or 1
    tensor = fixed.tensor
    if tensor is None:
        total = len(replica) * common_gpu_count(replica)
        equation = f"tensor = {total} GPUs / pipeline {pipeline}"
        tensor = divide(total, pipeline, equation)
    return _over_nodes(replica, tensor, pipeline, fixed)


def multi_node_tp_pp(replica: tuple[Slot, ...], fixed: Fixed) -> Sizes:
    """Tensor parallel inside a node, pipeline parallel across nodes."""
    refuse_data_parallel(fixed, "multi_node_tp_pp")
    tensor, pipeline = fixed.tensor, fixed.pipeline
    if tensor is None or pipeline is None:
        per_node = common_gpu_count(replica)
        total = len(replica) * per_node
        if tensor is not None:
            pipeline = divide(total, tensor, f"pipeline = {total} GPUs / tensor {tensor}")
        elif pipeline is not None:
            tensor = divide(total, pipeline, f"tensor = {total} GPUs / pipeline {pipeline}")
        else:
            tensor, pipeline = per_node, len(replica)
    return _over_nodes(replica, tensor, pipeline, fixed)


def _over_nodes(replica: tuple[Slot, ...], tensor: int, pipeline: int, fixed: Fixed) -> Sizes:
    nodes = len(replica)
    equation = f"tensor {tensor} x pipeline {pipeline} over {nodes} nodes"
    per_node = divide(tensor * pipeline, nodes, equation)
    check_fits(per_node, replica, f"tensor {tensor} x pipeline {pipeline} / {nodes} nodes")
    return Sizes(tensor=tensor, pipeline=pipeline, decode_context=fixed.decode_context)
