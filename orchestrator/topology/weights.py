"""How much memory a model's weights take on one GPU."""

from __future__ import annotations

import math
from dataclasses import dataclass

from orchestrator.recipes.resolved import CommandParts, ResolvedRecipe
from orchestrator.topology.layout import Sizes

GIB = 2**30

# What the public recipes add to the weights for their `vram_minimum_gb`: of 689 variants there
# whose parameters and precision are given, 508 are 1.1 to 1.3 times parameters x bytes.
_MINIMUM_OVER_WEIGHTS = 1.2
_ROUNDED = 0.95  # `parameter_count` and `vram_minimum_gb` are rounded
_AGREE = 0.9  # the lower of the two to the higher, where they mean one and the same model
_LOADED = 0.98  # a drafting layer may be among the parameters, and is not loaded without drafting
_BYTES = {
    **dict.fromkeys(("fp32",), 4.0),
    **dict.fromkeys(("bf16", "fp16"), 2.0),
    **dict.fromkeys(("fp8", "int8", "mxfp8"), 1.0),
    **dict.fromkeys(("int4", "nvfp4", "mxfp4", "fp4"), 0.5),
}


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of a whole model in GiB: the estimate, and what they certainly come to.

    `dense` is the part of `total` that is not experts (all of it for a dense model), None where
    a mixture of experts does not say. `offloaded` is what each GPU keeps in host memory.
    """

    total: float
    least: float
    dense: float | None
    experts: int | None = None
    mixture: bool = False
    offloaded: float = 0.0
    source: str = ""

    def of_gpu(self, sizes: Sizes, share: float) -> float | None:
        """GiB on one GPU of a stage that holds `share` of the layers; None: not known.

        The dense part is cut over the tensor ranks, and every data-parallel rank has its own.
        Experts are cut (or dealt whole) over tensor x prefill context x data ranks (0.32.0).
        """
        ranks = sizes.tensor * sizes.prefill_context * sizes.data
        if self.dense is None:
            return self._held(self.total / ranks * share) if ranks == sizes.tensor else None
        experts = (self.total - self.dense) * self._expert_share(sizes, ranks)
        return self._held((self.dense / sizes.tensor + experts) * share)

    def least_of_gpu(self, sizes: Sizes, share: float) -> float:
        """GiB that one GPU has at least to hold: as if every part were cut over all ranks."""
        ranks = sizes.tensor
        if self.mixture:
            ranks *= sizes.prefill_context * sizes.data
        return self._held(self.least / ranks * share)

    def _expert_share(self, sizes: Sizes, ranks: int) -> float:
        if self.experts and sizes.expert_parallel:
            return math.ceil(self.experts / ranks) / self.experts
        return 1 / ranks

    def _held(self, gib: float) -> float:
        return max(gib - self.offloaded, 0.0)


def weights(recipe: ResolvedRecipe, parts: CommandParts) -> Weights | None:
    """The weights by the best source there is; None when there is none.

    The size of the checkpoint's files where it is known; else `vram_minimum_gb` / 1.2; else
    parameters x bytes of the precision. Of the files nothing can be missing; else the least is 5%
    below the lower of the last two, since a variant may be another model of another size. Where
    the two agree it is what the parameters come to, as little as their rounding allows. Weights
    that vLLM is told to quantize, change or offload in groups are not known.
    """
    unknown = ("--hf-overrides", "--offload-backend", "--offload-group-size")
    if any(parts.has(flag) for flag in unknown):
        return None
    width = _BYTES.get(recipe.precision or "")
    if parts.has("--quantization") and (width is None or width >= 2):
        return None
    found: dict[str, float] = {}
    if recipe.vram_minimum_gb:
        shown = f"vram_minimum_gb {recipe.vram_minimum_gb:g} / {_MINIMUM_OVER_WEIGHTS:g}"
        found[shown] = recipe.vram_minimum_gb / _MINIMUM_OVER_WEIGHTS * 1e9 / GIB
    if recipe.parameters and width:
        shown = f"{recipe.parameters / 1e9:g} billion parameters x {width:g} bytes"
        found[shown] = recipe.parameters * width / GIB
    least = min(found.values(), default=0.0) * _ROUNDED
    agree = len(found) == 2 and min(found.values()) >= _AGREE * max(found.values())
    if agree and recipe.fewest_parameters and width:
        least = max(least, recipe.fewest_parameters * width / GIB * _LOADED)
    if recipe.shape.weights_gb:
        total = least = recipe.shape.weights_gb * 1e9 / GIB
        source = f"files of {recipe.shape.weights_gb:.1f} GB"
    elif found:
        source, total = next(iter(found.items()))
    else:
        return None
    share = _dense_share(recipe)
    return Weights(
        total=total,
        least=least,
        dense=None if share is None else total * share,
        experts=recipe.shape.experts,
        mixture=recipe.mixture_of_experts or recipe.shape.experts is not None,
        offloaded=_number(parts.value("--cpu-offload-gb")),
        source=source,
    )


def _dense_share(recipe: ResolvedRecipe) -> float | None:
    """The share of the parameters that are not experts; None: not known.

    From the shape, experts are layers x experts x 3 x hidden x expert size; what remains of the
    (rounded) parameter count is at least the attention's, taken as layers x 4 x hidden^2, and at
    most the active parameters, which also stand for it where there is no shape.
    """
    shape, parameters, active = recipe.shape, recipe.parameters, recipe.active_parameters
    if not recipe.mixture_of_experts and shape.experts is None:
        return 1.0
    sizes = (shape.layers, shape.experts, shape.hidden_size, shape.moe_intermediate_size)
    if all(sizes):
        layers, experts, hidden, expert_size = (float(size or 0) for size in sizes)
        routed = layers * experts * 3 * hidden * expert_size
        attention = layers * 4 * hidden**2
        dense = max((parameters or 0) - routed, attention)
        if active:
            dense = min(dense, active)
        return min(dense / (parameters or routed + dense), 1.0)
    return min(active / parameters, 1.0) if active and parameters else None


def _number(text: str | None) -> float:
    try:
        return float(text or 0)
    except ValueError:
        return 0.0
