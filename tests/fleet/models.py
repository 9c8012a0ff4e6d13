"""Models that need no download: a config and a tokenizer; vLLM invents the weights.

Start them with `--load-format dummy --dtype float32 --max-model-len 256`. Heads have 64
dimensions because the CPU kernels refuse 16 at the first request, while /health says 200.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.fleet.cache import building, models_directory

VOCABULARY = 512
SPECIAL = ("<unk>", "<s>", "</s>")
CHAT_TEMPLATE = (
    "{% for message in messages %}<s>{{ message['role'] }}: {{ message['content'] }}</s>"
    "{% endfor %}{% if add_generation_prompt %}<s>assistant: {% endif %}"
)

_COMMON: Mapping[str, Any] = {
    "hidden_size": 256,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "num_hidden_layers": 4,
    "vocab_size": VOCABULARY,
    "intermediate_size": 512,
    "max_position_embeddings": 1024,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
    "bos_token_id": 1,
    "eos_token_id": 2,
}

CONFIGS: Mapping[str, Mapping[str, Any]] = {
    "tiny-llama": {**_COMMON, "architectures": ["LlamaForCausalLM"], "model_type": "llama"},
    "tiny-qwen3-moe": {
        **_COMMON,
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 128,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "norm_topk_prob": True,
    },
}


def write_models() -> Path:
    """Write the models that are missing and return the directory that holds them."""
    directory = models_directory()
    with building("models"):
        for name, config in CONFIGS.items():
            _write(directory / name, config)
    return directory


def _write(directory: Path, config: Mapping[str, Any]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    if not (directory / "tokenizer.json").exists():
        _save_tokenizer(directory / "tokenizer.json")
    _save(directory / "config.json", config)
    _save(directory / "generation_config.json", {"bos_token_id": 1, "eos_token_id": 2})
    _save(
        directory / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "unk_token": SPECIAL[0],
            "bos_token": SPECIAL[1],
            "eos_token": SPECIAL[2],
            "model_max_length": 1024,
            "chat_template": CHAT_TEMPLATE,
        },
    )


def _save_tokenizer(path: Path) -> None:
    """Byte-level, so that it can say any text; its vocabulary is the bytes and some pairs."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE(unk_token=SPECIAL[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([Path(__file__).read_text()], trainer)
    tokenizer.save(str(path))


def _save(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")
