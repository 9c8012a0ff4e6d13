"""The shape of a model: from a recipe's `model.shape`, or from its `config.json` on this machine.

Only files that are already here are read: a model given as a directory, or one in the local
Hugging Face cache. Nothing is downloaded.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from orchestrator.documents import expand_user
from orchestrator.recipes.resolved import ModelShape

# Where multimodal and omni models keep the language model's configuration.
_NESTED = ("text_config", "llm_config", "language_config", "thinker_config")
_MEDIA = ("vision_config", "audio_config", "thinker_config")
_EXPERTS = ("n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts")
_INDEX = "model.safetensors.index.json"
_MOE_SIZE = ("moe_intermediate_size", "expert_ffn_hidden_size", "moe_ffn_hidden_size")


def shape_of_config(config: Mapping[str, Any]) -> ModelShape:
    """The sizes in a Hugging Face `config.json`, whose language model may be nested.

    `kv_heads` is 1 for multi-head latent attention, since its one compressed KV head is what
    every rank holds (vLLM's ModelConfig.get_total_num_kv_heads). `quantization_block` is the
    block of block-wise FP8 weights. Sparse attention is told by `index_topk`, as vLLM tells it.
    What the file does not say is None.
    """
    text = _language_model(config)
    experts = _number(text, *_EXPERTS)
    heads = _number(text, "num_attention_heads", "n_head", "n_heads")
    hidden = _number(text, "hidden_size", "n_embd", "d_model", "dim")
    latent = bool(text.get("kv_lora_rank"))
    moe_size = _number(text, *_MOE_SIZE) if experts else None
    if experts and moe_size is None:
        moe_size = _number(text, "intermediate_size")  # Mixtral, GPT-OSS, Llama 4
    head_dim = _number(text, "head_dim")
    if head_dim is None and heads and hidden and not latent:
        head_dim = hidden // heads
    quantization = config.get("quantization_config") or text.get("quantization_config")
    layers = _number(text, "num_hidden_layers", "n_layer", "n_layers", "num_layers")
    return ModelShape(
        layers=layers,
        attention_heads=heads,
        kv_heads=1 if latent else _number(text, "num_key_value_heads", "n_kv_heads") or heads,
        hidden_size=hidden,
        head_dim=head_dim,
        experts=experts,
        moe_intermediate_size=moe_size,
        quantization_block=_block(quantization),
        kv_latent=_latent(text),
        kv_layers=_full_attention_layers(text, layers),
        sparse_attention="index_topk" in text if latent else None,
        multimodal=any(name in config for name in _MEDIA) or None,
    )


def _language_model(config: Mapping[str, Any]) -> Mapping[str, Any]:
    for name in _NESTED:
        nested = config.get(name)
        if isinstance(nested, Mapping):
            return _language_model(nested)
    return config


def _number(config: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = config.get(name)
        if isinstance(value, list) and value:
            value = value[0]  # one number a layer: the first stands for all
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def _latent(text: Mapping[str, Any]) -> int | None:
    """Numbers that latent attention keeps for a token and layer: latent and rotary part."""
    rank, rotary = _number(text, "kv_lora_rank"), _number(text, "qk_rope_head_dim")
    return rank + rotary if rank and rotary else None


def _full_attention_layers(text: Mapping[str, Any], layers: int | None) -> int | None:
    """Layers that attend to the whole context, where the file tells them from the others."""
    kinds = text.get("layer_types")
    if isinstance(kinds, list) and "full_attention" in kinds:
        return kinds.count("full_attention")
    interval = _number(text, "full_attention_interval")
    return layers // interval if layers and interval and layers >= interval else None


def _block(quantization: Any) -> int | None:
    """The block size of block-wise weights: `weight_block_size`, or compressed-tensors' own."""
    if not isinstance(quantization, Mapping):
        return None
    block = quantization.get("weight_block_size")
    groups = quantization.get("config_groups")
    if block is None and isinstance(groups, Mapping):
        for group in groups.values():
            weights = group.get("weights") if isinstance(group, Mapping) else None
            if isinstance(weights, Mapping) and weights.get("block_structure"):
                block = weights["block_structure"]
    sizes = [size for size in block if isinstance(size, int)] if isinstance(block, list) else []
    return max(sizes, default=None)


def local_config(model: str, environment: Mapping[str, str] | None = None) -> Path | None:
    """The `config.json` of a model on this machine: a directory, or in the Hugging Face cache."""
    directory = expand_user(model)
    if model.startswith(("/", ".", "~")) or directory.is_dir():
        found = directory / "config.json"
        return found if found.is_file() else None
    cache = _hub_cache(os.environ if environment is None else environment)
    repository = cache / ("models--" + model.replace("/", "--"))
    try:
        revision = (repository / "refs" / "main").read_text().strip()
    except (OSError, ValueError):
        return None
    found = repository / "snapshots" / revision / "config.json"
    return found if found.is_file() else None


def _hub_cache(environment: Mapping[str, str]) -> Path:
    """Where huggingface_hub keeps its cache (its own order of variables)."""
    if environment.get("HF_HUB_CACHE"):
        return Path(environment["HF_HUB_CACHE"])
    home = environment.get("HF_HOME") or str(
        Path(environment.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))  # noqa: PTH111
        / "huggingface"
    )
    return Path(home) / "hub"


def local_shape(model: str, environment: Mapping[str, str] | None = None) -> ModelShape | None:
    """The shape by the model's local `config.json`; None when there is none that can be read."""
    path = local_config(model, environment)
    try:
        shape = shape_of_text(path.read_text(encoding="utf-8")) if path else None
    except (OSError, ValueError):
        return None
    return replace(shape, weights_gb=_weights_gb(path.parent)) if path and shape else None


def shape_of_text(text: str) -> ModelShape | None:
    """The shape by the text of a `config.json`; None for one that is no JSON object."""
    try:
        config = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return shape_of_config(config) if isinstance(config, Mapping) else None


def _weights_gb(directory: Path) -> float | None:
    """GB of weights: what the safetensors index says, else the size of a lone file."""
    try:
        index = directory / _INDEX
        if index.is_file():
            size = json.loads(index.read_text(encoding="utf-8"))["metadata"]["total_size"]
            return float(size) / 1e9 or None
        return (directory / "model.safetensors").stat().st_size / 1e9 or None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def overlay(given: ModelShape, found: ModelShape | None) -> ModelShape:
    """`given` with what it leaves open taken from `found`."""
    if found is None:
        return given
    missing = {
        field.name: getattr(found, field.name)
        for field in fields(ModelShape)
        if getattr(given, field.name) is None
    }
    return replace(given, **missing)
