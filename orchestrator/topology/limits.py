"""What a model's shape allows: every rule here is one that vLLM would break on after the start.

Read in vLLM 0.32.0: ModelConfig.verify_with_parallel_config, QKVParallelLinear, FusedMoEConfig,
determine_expert_map, validate_fp8_block_shape_moe, ParallelConfig._validate_parallel_config.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from orchestrator.errors import PlanError
from orchestrator.recipes.arguments import json_of
from orchestrator.recipes.resolved import CommandParts, ModelShape
from orchestrator.topology.layout import Sizes
from orchestrator.topology.sizes import Offer, UnworkableSizes, listed

_WIDEST = 64  # tensor size that is named where the number of attention heads is not known


@dataclass(frozen=True, slots=True)
class Mixture:
    """What the arguments say of a mixture of experts.

    `redundant` is the number of redundant experts of expert load balancing; None: it is off.
    """

    is_one: bool = True
    redundant: int | None = None


def redundant_experts(parts: CommandParts) -> int | None:
    """The redundant experts that the arguments ask for; None without expert load balancing."""
    if not parts.has("--enable-eplb"):
        return None
    given = str(json_of(parts.arguments, "--eplb-config").get("num_redundant_experts") or 0)
    return int(given) if given.isdecimal() else 0


def check_shape(
    shape: ModelShape,
    sizes: Sizes,
    model: str,
    mixture: Mixture = Mixture(),
    *,
    moves_kv: bool = False,
) -> None:
    """Refuse sizes that the model cannot be split into. Unknown facts (None) check nothing.

    `moves_kv`: NIXL moves the KV cache between pools. Raises UnworkableSizes with the equation
    and the sizes that the model allows.
    """
    _check_heads(shape, sizes.tensor, model)
    _check_experts(shape, sizes, model, mixture)
    _check_expert_cut(shape, sizes, model)
    _check_layers(shape, sizes.pipeline, model)
    _check_decode_context(shape, sizes, model)
    if moves_kv:
        _check_moved_kv(shape, sizes, model)


def _check_heads(shape: ModelShape, tensor: int, model: str) -> None:
    """Whole attention heads on every rank; KV heads too, or whole copies of each (vllm#5003)."""
    heads, kv_heads = shape.attention_heads, shape.kv_heads

    def fits(size: int) -> bool:
        return (heads is None or heads % size == 0) and _kv_heads_fit(kv_heads, size)

    if heads is not None and heads % tensor:
        raise UnworkableSizes(
            f"{heads} attention heads of {model} do not divide over tensor size {tensor}: "
            f"{heads} % {tensor} = {heads % tensor}",
            why="every tensor rank holds the same number of whole attention heads",
            hint=f"tensor sizes that the model allows: {_works(fits, heads, tensor)}",
        )
    if kv_heads is not None and not _kv_heads_fit(kv_heads, tensor):
        more, fewer = max(tensor, kv_heads), min(tensor, kv_heads)
        raise UnworkableSizes(
            f"{kv_heads} KV heads of {model} do not go with tensor size {tensor}: "
            f"{more} % {fewer} = {more % fewer}",
            why="every tensor rank holds whole KV heads, or every KV head is on as many ranks",
            hint="tensor sizes that the model allows: "
            + _works(fits, heads or max(_WIDEST, 2 * tensor), tensor),
        )


def _kv_heads_fit(kv_heads: int | None, tensor: int) -> bool:
    if kv_heads is None:
        return True
    return tensor % kv_heads == 0 if tensor >= kv_heads else kv_heads % tensor == 0


def _check_experts(shape: ModelShape, sizes: Sizes, model: str, mixture: Mixture) -> None:
    """Expert parallel deals whole experts over tensor x prefill context x data ranks.

    They need not come out even, but for expert load balancing; a rank without any has no use.
    """
    experts = shape.experts
    if not sizes.expert_parallel:
        return
    if experts is None:
        if mixture.is_one:
            return
        raise UnworkableSizes(
            f"{model} is a dense model and has no experts to deal out (expert parallel)",
            why="vLLM refuses --enable-expert-parallel without experts",
            hint="take a strategy without expert parallel",
        )
    size, equation = _expert_ranks(sizes), _equation(sizes)
    if size > experts:
        raise UnworkableSizes(
            f"{experts} experts of {model} are fewer than the {size} ranks they are dealt to"
            + (f": {equation} = {size}" if " x " in equation else ""),
            why="a rank past the last expert would hold none",
            hint=f"{experts} ranks at most: fewer nodes, or a pipeline over them",
        )
    if mixture.redundant is not None and (experts + mixture.redundant) % size:
        total = experts + mixture.redundant
        raise UnworkableSizes(
            f"expert load balancing needs as many experts on every rank, but {experts} + "
            f"{mixture.redundant} redundant ones are dealt over {size} ranks: "
            f"{total} % {size} = {total % size}",
            offers=[
                Offer("num_redundant_experts", (-experts % size,), "num_redundant_experts: {}")
            ],
        )


def _check_expert_cut(shape: ModelShape, sizes: Sizes, model: str) -> None:
    """Without expert parallel every expert is cut over the tensor, prefill context and data ranks.

    Each part is whole, and of whole quantization blocks (recipes#497, vllm#45784).
    """
    size, block = shape.moe_intermediate_size, shape.quantization_block
    if size is None or sizes.expert_parallel:
        return
    ranks = _expert_ranks(sizes)

    def fits(number: int) -> bool:
        return size % number == 0 and (block is None or size // number % block == 0)

    if fits(ranks):
        return
    fault = f"{size} % {ranks} = {size % ranks}"
    if block is not None:
        part = f"{size} / {ranks} = {size / ranks:g}"
        fault = f"{part} is not a multiple of the quantization block {block}"
    equation = "" if ranks == sizes.tensor else f"{_equation(sizes)} = "
    named = "tensor size " if not equation else ""
    raise UnworkableSizes(
        f"the experts of {model} cannot be cut over {named}{equation}{ranks}: {fault}",
        why="each rank holds an equal part of every expert"
        + (", in whole quantization blocks" if block else ""),
        hint=f"sizes that the model allows: {_works(fits, size, ranks)}; or keep experts whole "
        "(expert parallel)",
    )


def _check_layers(shape: ModelShape, pipeline: int, model: str) -> None:
    layers = shape.layers
    if layers is not None and pipeline > layers:
        raise UnworkableSizes(
            f"{model} has {layers} layers, fewer than {pipeline} pipeline stages",
            why="every stage holds at least one layer",
            hint=f"a pipeline size of at most {layers}",
        )


def _check_decode_context(shape: ModelShape, sizes: Sizes, model: str) -> None:
    """The tensor ranks divide by it; with grouped KV heads it uses their copies.

    Beside prefill context parallel it is that size, or all ranks of both.
    """
    tensor, context, prefill = sizes.tensor, sizes.decode_context, sizes.prefill_context
    if context == 1:
        return
    if prefill > 1:
        if context not in (prefill, tensor * prefill):
            raise UnworkableSizes(
                f"decode context parallel {context} does not go with tensor {tensor} x prefill "
                f"context {prefill} = {tensor * prefill}",
                why="it is off, or spans the prefill context ranks, or all ranks",
                offers=[_decode_contexts(sorted({1, prefill, tensor * prefill}))],
            )
    elif tensor % context:
        raise UnworkableSizes(
            f"decode context parallel {context} does not divide tensor size {tensor}: "
            f"{tensor} % {context} = {tensor % context}",
            offers=[_decode_contexts(_divisors(tensor, tensor))],
        )
    _check_context_of_grouped_heads(shape, tensor, context, model)


def _check_context_of_grouped_heads(
    shape: ModelShape, tensor: int, context: int, model: str
) -> None:
    kv_heads, heads = shape.kv_heads, shape.attention_heads
    if kv_heads is None or kv_heads == 1:
        return
    if tensor <= kv_heads or context > tensor // kv_heads:
        largest = max(tensor // kv_heads, 1)
        works = [size for size in _divisors(tensor, largest) if _queries(shape) % size == 0]
        raise UnworkableSizes(
            f"decode context parallel {context} needs {context} copies of the {kv_heads} KV heads "
            f"of {model}, but tensor size {tensor} holds {tensor} // {kv_heads} = "
            f"{tensor // kv_heads}",
            hint=None if tensor > kv_heads else f"it needs a tensor size above {kv_heads}",
            offers=[_decode_contexts(works, f" (at most {largest} here)")],
        )
    queries = _queries(shape)
    if queries % context:
        raise UnworkableSizes(
            f"decode context parallel {context} does not divide the query heads of a KV head: "
            f"{heads} / {kv_heads} = {queries}, {queries} % {context} = {queries % context}",
            offers=[_decode_contexts(_divisors(queries, tensor // kv_heads))],
        )


def _queries(shape: ModelShape) -> int:
    """Query heads of a KV head; 0, which everything divides, where they are not known."""
    return (shape.attention_heads or 0) // (shape.kv_heads or 1)


def _decode_contexts(sizes: Sequence[int], limit: str = "") -> Offer:
    return Offer("parallel.decode_context", tuple(sizes), f"decode contexts that work{limit}: {{}}")


def _check_moved_kv(shape: ModelShape, sizes: Sizes, model: str) -> None:
    """NIXL moves a cache that is whole on every rank, or a latent one that is cut over all."""
    if sizes.decode_context > 1 and shape.kv_heads not in (None, 1):
        raise PlanError(
            f"decode context parallel {sizes.decode_context} of {model} under prefill/decode",
            why="vLLM moves such a cache for multi-head latent attention only",
            hint="leave parallel.decode_context out",
        )
    widest = max(sizes.tensor, sizes.prefill_context)
    if sizes.decode_context not in (1, widest):
        raise UnworkableSizes(
            f"decode context parallel {sizes.decode_context} under prefill/decode is 1 or "
            f"max(tensor {sizes.tensor}, prefill context {sizes.prefill_context}) = {widest}",
            offers=[_decode_contexts((1, widest))],
        )


def _expert_ranks(sizes: Sizes) -> int:
    return sizes.tensor * sizes.prefill_context * sizes.data


def _equation(sizes: Sizes) -> str:
    """`tensor 8 x data 2`, without those that are 1."""
    named = (
        ("tensor", sizes.tensor),
        ("prefill context", sizes.prefill_context),
        ("data", sizes.data),
    )
    return " x ".join(f"{name} {size}" for name, size in named if size > 1) or "tensor 1"


def _works(fits: Callable[[int], bool], limit: int, asked: int) -> str:
    """All sizes up to `limit` that fit: also those above what was asked for may be here."""
    return listed(filter(fits, range(1, limit + 1)), asked)


def _divisors(number: int, limit: int) -> list[int]:
    return [size for size in range(1, min(number, limit) + 1) if number % size == 0]
