"""How much memory the KV cache of one sequence takes on one GPU."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from orchestrator.recipes.resolved import CommandParts, ModelShape, ResolvedRecipe
from orchestrator.topology.layout import Sizes
from orchestrator.topology.weights import GIB

_SUFFIX = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_SUFFIX |= {suffix.upper(): 2 ** (10 * power) for power, suffix in enumerate("kmgt", start=1)}


@dataclass(frozen=True, slots=True)
class KvCache:
    """The KV cache of one sequence of `context` tokens (vLLM must hold one at least)."""

    shape: ModelShape
    context: int
    width: float  # bytes of one number

    def of_gpu(self, sizes: Sizes, layers: float) -> float | None:
        """GiB on one GPU of a stage with `layers` layers; None where the shape does not say.

        Latent attention keeps `kv_latent` numbers a token and layer on every rank; else a rank
        keeps 2 x its KV heads (one at least) x head size. Decode context parallel cuts the
        sequence (AttentionSpec.max_memory_usage_bytes, 0.32.0).
        """
        shape = self.shape
        if shape.kv_latent:
            numbers = shape.kv_latent
        elif shape.kv_heads and shape.head_dim:
            numbers = 2 * max(shape.kv_heads // sizes.tensor, 1) * shape.head_dim
        else:
            return None
        if shape.kv_layers and shape.layers:
            layers *= shape.kv_layers / shape.layers
        tokens = math.ceil(self.context / sizes.decode_context)
        return tokens * layers * numbers * self.width / GIB


def kv_cache(recipe: ResolvedRecipe, parts: CommandParts) -> KvCache | None:
    """The cache at --max-model-len, else at the recipe's context length; None: not known.

    vLLM chooses the length under `auto`, and takes --kv-cache-memory-bytes as it is.
    """
    asked = parts.value("--max-model-len")
    context = recipe.context_length if asked is None else tokens(asked)
    if not context or parts.has("--kv-cache-memory-bytes") or parts.has("--hf-overrides"):
        return None
    return KvCache(recipe.shape, context, _width(recipe, parts))


def tokens(text: str) -> int | None:
    """A length as vLLM reads it: `131072`, `128k` (x 1000), `128K` (x 1024); None for `auto`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmMgGtT])?", text.strip())
    return int(float(found[1]) * _SUFFIX.get(found[2] or "", 1)) if found else None


def _width(recipe: ResolvedRecipe, parts: CommandParts) -> float:
    """Bytes of one number: of --kv-cache-dtype, else of the model's own 16 or 32 bits."""
    kind = parts.value("--kv-cache-dtype") or "auto"
    if re.search("nvfp4|int4|[34]bit", kind):
        return 0.5
    if re.search("fp8|int8|k8", kind):
        return 1.0
    single = "float32" in (kind, parts.value("--dtype")) or recipe.precision == "fp32"
    return 4.0 if single else 2.0
