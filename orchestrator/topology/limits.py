"""What a model's shape allows: every rule here is one that vLLM would break on after the start."""

from __future__ import annotations

from orchestrator.errors import PlanError
from orchestrator.recipes.resolved import ModelShape
from orchestrator.topology.layout import Sizes


def check_shape(shape: ModelShape, sizes: Sizes, model: str) -> None:
    """Refuse sizes that the model cannot be split into. Unknown facts (None) check nothing.

    Raises PlanError with the equation and the sizes that would work.
    """
    _check_heads(shape, sizes.tensor, model)
    _check_quantization_block(shape, sizes, model)
    _check_layers(shape, sizes.pipeline, model)
    _check_decode_context(shape, sizes, model)


def _check_heads(shape: ModelShape, tensor: int, model: str) -> None:
    heads = shape.attention_heads
    if heads is None or heads % tensor == 0:
        return
    raise PlanError(
        f"{heads} attention heads of {model} do not divide over tensor size {tensor}: "
        f"{heads} % {tensor} = {heads % tensor}",
        why="every tensor rank holds the same number of whole attention heads",
        hint=f"tensor sizes that work: {_listed(_divisors(heads, tensor))}",
    )


def _check_quantization_block(shape: ModelShape, sizes: Sizes, model: str) -> None:
    """recipes#497, vllm#45784. With expert parallel the experts are not cut, so all sizes fit."""
    size, block, tensor = shape.moe_intermediate_size, shape.quantization_block, sizes.tensor
    if size is None or block is None or sizes.expert_parallel:
        return
    if size % tensor == 0 and (size // tensor) % block == 0:
        return
    works = [t for t in _divisors(size, tensor) if (size // t) % block == 0]
    raise PlanError(
        f"the experts of {model} cannot be cut over tensor size {tensor}: "
        f"{size} / {tensor} = {size / tensor:g} is not a multiple of the quantization block "
        f"{block}",
        why="each tensor rank holds whole quantization blocks of every expert",
        hint=f"tensor sizes that work: {_listed(works)}; or keep experts whole (expert parallel)",
    )


def _check_layers(shape: ModelShape, pipeline: int, model: str) -> None:
    layers = shape.layers
    if layers is not None and pipeline > layers:
        raise PlanError(
            f"{model} has {layers} layers, fewer than {pipeline} pipeline stages",
            hint=f"a pipeline size of at most {layers}",
        )


def _check_decode_context(shape: ModelShape, sizes: Sizes, model: str) -> None:
    """tp % dcp == 0; with grouped KV heads also tp > kv_heads and dcp <= tp // kv_heads."""
    tensor, context = sizes.tensor, sizes.decode_context
    if context == 1:
        return
    if tensor % context:
        raise PlanError(
            f"decode context parallel {context} does not divide tensor size {tensor}: "
            f"{tensor} % {context} = {tensor % context}",
            hint=f"sizes that work: {_listed(_divisors(tensor, tensor))}",
        )
    heads = shape.kv_heads
    if heads is None or heads == 1:
        return
    if tensor <= heads or context > tensor // heads:
        largest = max(tensor // heads, 1)
        raise PlanError(
            f"decode context parallel {context} needs {context} copies of the {heads} KV heads of "
            f"{model}, but tensor size {tensor} holds {tensor} // {heads} = {tensor // heads}",
            hint=f"at most {largest} here"
            + ("" if tensor > heads else f"; it needs a tensor size above {heads}"),
        )


def _divisors(number: int, limit: int) -> list[int]:
    return [size for size in range(1, min(number, limit) + 1) if number % size == 0]


def _listed(sizes: list[int]) -> str:
    return ", ".join(map(str, sizes)) if sizes else "none"
