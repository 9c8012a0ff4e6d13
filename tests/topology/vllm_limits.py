"""Runs in an environment that has vLLM: its verdict on parallel sizes, and its KV cache's size.

Reads a JSON list of cases (heads, kv_heads, latent, tensor, decode_context, prefill_context) on
stdin; writes, for each, what vLLM says against it (or null), and the bytes that its specs of one
layer's cache take for a token: [grouped, latent].
"""

from __future__ import annotations

import json
import os
import sys
from types import SimpleNamespace
from typing import Any

# vLLM logs to stdout while it is imported; stdout is for the answer alone.
answer = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

import torch  # noqa: E402
from vllm.config import ParallelConfig  # noqa: E402
from vllm.config.model import ModelConfig  # noqa: E402
from vllm.distributed.utils import divide  # noqa: E402
from vllm.v1.kv_cache_interface import FullAttentionSpec, MLAAttentionSpec  # noqa: E402


def verdict(case: dict[str, Any]) -> str | None:
    """The checks in the order in which a start meets them."""
    heads, kv_heads, tensor = case["heads"], case["kv_heads"], case["tensor"]
    model = SimpleNamespace(
        model_arch_config=SimpleNamespace(
            total_num_attention_heads=heads, total_num_kv_heads=kv_heads
        ),
        use_mla=case["latent"],
        multimodal_config=None,
        get_total_num_kv_heads=lambda: kv_heads,
    )
    try:
        parallel = ParallelConfig(
            tensor_parallel_size=tensor,
            decode_context_parallel_size=case["decode_context"],
            prefill_context_parallel_size=case["prefill_context"],
            distributed_executor_backend="mp",
        )
        ModelConfig.verify_with_parallel_config(model, parallel)
        if not case["latent"]:  # as QKVParallelLinear does for the KV heads
            divide(max(tensor, kv_heads), min(tensor, kv_heads))
    except (AssertionError, ValueError) as error:
        return str(error) or type(error).__name__
    return None


def bytes_per_token(spec: FullAttentionSpec) -> float:
    config = SimpleNamespace(
        model_config=SimpleNamespace(max_model_len=65536),
        parallel_config=SimpleNamespace(
            decode_context_parallel_size=1, prefill_context_parallel_size=1
        ),
    )
    return float(spec.max_memory_usage_bytes(config)) / 65536


grouped = FullAttentionSpec(block_size=16, num_kv_heads=1, head_size=128, dtype=torch.bfloat16)
latent = MLAAttentionSpec(block_size=64, num_kv_heads=1, head_size=576, dtype=torch.bfloat16)
verdicts = [verdict(case) for case in json.load(sys.stdin)]
json.dump({"verdicts": verdicts, "bytes": [bytes_per_token(s) for s in (grouped, latent)]}, answer)
answer.flush()
