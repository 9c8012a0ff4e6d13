"""Configurations of tiny models with the heads, layers and experts of large ones."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orchestrator.recipes.resolved import ModelShape
from tests.fleet.models import CONFIGS, write_models

_LATENT: Mapping[str, Any] = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "kv_lora_rank": 32,
    "q_lora_rank": 32,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 16,
    "v_head_dim": 16,
    "n_shared_experts": 1,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "scoring_func": "sigmoid",
    "topk_method": "noaux_tc",
}


def write_config(shape: ModelShape, directory: Path) -> Path:
    """A directory with config.json and tokenizer of a tiny model, one for each shape."""
    name = f"{shape.layers}-{shape.attention_heads}-{shape.kv_heads}-{shape.experts}"
    place = directory / name
    if not place.exists():
        shutil.copytree(write_models() / "tiny-llama", place)
        (place / "config.json").write_text(json.dumps(config_of(shape)))
    return place


def config_of(shape: ModelShape) -> dict[str, Any]:
    latent = shape.kv_heads == 1
    config = {**CONFIGS["tiny-qwen3-moe" if shape.experts else "tiny-llama"]}
    if latent:
        config |= _LATENT
        del config["head_dim"]
    heads = shape.attention_heads or 64
    config |= {
        "num_hidden_layers": shape.layers or 64,
        "num_attention_heads": heads,
        "num_key_value_heads": heads if latent else shape.kv_heads or heads,
        "hidden_size": 64 * heads,
        "num_experts": shape.experts,
        "n_routed_experts": shape.experts,
    }
    return {name: value for name, value in config.items() if value is not None}
