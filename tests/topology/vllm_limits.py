"""Runs in an environment that has vLLM: its verdict on parallel sizes, and its KV cache's size.

Reads JSON on stdin: under `sizes` cases (heads, kv_heads, latent, tensor, decode_context,
prefill_context), under `prefill_context` cases of what stands beside prefill context parallel.
Writes, for each, what vLLM says against it (or null), and the bytes that its specs of one layer's
cache take for a token: [grouped, latent].
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
from vllm.config import CUDAGraphMode, ParallelConfig  # noqa: E402
from vllm.config.model import ModelConfig  # noqa: E402
from vllm.distributed.utils import divide  # noqa: E402
from vllm.v1.kv_cache_interface import FullAttentionSpec, MLAAttentionSpec  # noqa: E402
from vllm.v1.worker.gpu.pcp_manager import PCPManager  # noqa: E402


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


def beside_prefill_context(case: dict[str, Any]) -> str | None:
    """The check that every worker makes after the weights are loaded."""
    method = case["method"]
    speculative = SimpleNamespace(
        method=method,
        use_dspark=lambda: method == "dspark",
        use_multi_module_mtp=lambda: False,
        draft_model_config=SimpleNamespace(use_mla=False),
    )
    config = SimpleNamespace(
        parallel_config=SimpleNamespace(
            prefill_context_parallel_size=case["prefill_context"],
            decode_context_parallel_size=case["decode_context"],
            dcp_comm_backend=case["backend"],
        ),
        model_config=SimpleNamespace(
            use_mla=case["latent"],
            is_encoder_decoder=False,
            hf_text_config=SimpleNamespace(**({"index_topk": 1} if case["sparse"] else {})),
        ),
        lora_config=object() if case["lora"] else None,
        speculative_config=speculative if method else None,
        compilation_config=SimpleNamespace(cudagraph_mode=CUDAGraphMode[case["mode"]]),
    )
    try:
        PCPManager.validate_config(config, case["multimodal"])
    except NotImplementedError as error:
        return str(error)
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
asked = json.load(sys.stdin)
json.dump(
    {
        "sizes": [verdict(case) for case in asked["sizes"]],
        "prefill_context": [beside_prefill_context(case) for case in asked["prefill_context"]],
        "bytes": [bytes_per_token(spec) for spec in (grouped, latent)],
    },
    answer,
)
answer.flush()
