"""Strategies whose replica is one node: every one an independent server."""

from __future__ import annotations

from orchestrator.topology.layout import Slot
from orchestrator.topology.ranks import Sizes
from orchestrator.topology.sizes import Fixed, check_fits, divide, refuse_data_parallel


def single_node_tp(replica: tuple[Slot, ...], fixed: Fixed) -> Sizes:
    """Tensor parallel over the node's GPUs; pipeline only where it is asked for."""
    refuse_data_parallel(fixed, "single_node_tp")
    (slot,) = replica
    pipeline = fixed.pipeline or 1
    equation = f"tensor x pipeline = {len(slot.gpus)} GPUs of {slot.host}, pipeline {pipeline}"
    tensor = fixed.tensor or divide(len(slot.gpus), pipeline, equation)
    check_fits(tensor * pipeline, replica, f"tensor {tensor} x pipeline {pipeline}")
    return Sizes(tensor=tensor, pipeline=pipeline, decode_context=fixed.decode_context)
