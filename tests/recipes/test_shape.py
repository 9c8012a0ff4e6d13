from __future__ import annotations

import json
from pathlib import Path

from orchestrator.deployment import Deployment
from orchestrator.recipes.catalog import Catalog
from orchestrator.recipes.resolved import ModelShape
from orchestrator.recipes.shape import local_config, local_shape, overlay, shape_of_config

DEEPSEEK = {
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "hidden_size": 7168,
    "kv_lora_rank": 512,
    "n_routed_experts": 256,
    "moe_intermediate_size": 2048,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}


def test_latent_attention_counts_as_one_kv_head() -> None:
    assert shape_of_config(DEEPSEEK) == ModelShape(
        layers=61,
        attention_heads=128,
        kv_heads=1,
        hidden_size=7168,
        experts=256,
        moe_intermediate_size=2048,
        quantization_block=128,
        sparse_attention=False,
    )


def test_sparse_attention_and_media_are_told_by_vllms_own_signs() -> None:
    assert shape_of_config(DEEPSEEK | {"index_topk": 2048}).sparse_attention is True
    assert shape_of_config({"num_attention_heads": 32}).sparse_attention is None
    assert shape_of_config({"text_config": DEEPSEEK, "vision_config": {}}).multimodal is True
    assert shape_of_config(DEEPSEEK).multimodal is None


def test_the_language_model_of_a_multimodal_config_is_found_at_any_depth() -> None:
    nested = {"thinker_config": {"text_config": {"num_hidden_layers": 48}}, "hidden_size": 1}
    assert shape_of_config(nested).layers == 48
    assert shape_of_config({"text_config": DEEPSEEK, "vision_config": {}}).experts == 256


def test_a_dense_model_has_no_expert_sizes_and_its_head_size_is_computed() -> None:
    dense = shape_of_config(
        {
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "hidden_size": 4096,
            "intermediate_size": 9,
        }
    )
    assert (dense.kv_heads, dense.head_dim, dense.moe_intermediate_size) == (32, 128, None)


def test_experts_without_a_size_of_their_own_have_the_intermediate_size() -> None:
    assert (
        shape_of_config({"num_local_experts": 8, "intermediate_size": 2880}).moe_intermediate_size
        == 2880
    )


def test_the_block_of_compressed_tensors_weights_is_read() -> None:
    groups = {"group_0": {"weights": {"block_structure": [128, 128], "strategy": "block"}}}
    assert (
        shape_of_config({"quantization_config": {"config_groups": groups}}).quantization_block
        == 128
    )
    assert (
        shape_of_config({"quantization_config": {"weight_block_size": None}}).quantization_block
        is None
    )


def test_a_model_given_as_a_directory_is_read_there(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(DEEPSEEK))
    found = local_shape(str(tmp_path))
    assert found is not None and found.layers == 61
    assert local_config(str(tmp_path / "absent")) is None


def test_a_model_in_the_hugging_face_cache_is_read_by_its_main_revision(tmp_path: Path) -> None:
    repository = tmp_path / "models--org--name"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("abc\n")
    (repository / "snapshots" / "abc").mkdir(parents=True)
    (repository / "snapshots" / "abc" / "config.json").write_text(json.dumps(DEEPSEEK))
    found = local_shape("org/name", {"HF_HUB_CACHE": str(tmp_path)})
    assert found is not None and found.attention_heads == 128
    assert local_shape("org/other", {"HF_HUB_CACHE": str(tmp_path)}) is None
    home = {"HF_HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": "/nowhere"}
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "hub").symlink_to(tmp_path)
    assert local_shape("org/name", home) is not None


def test_a_broken_config_is_as_good_as_none(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{not json")
    assert local_shape(str(tmp_path)) is None
    (tmp_path / "config.json").write_text("[1]")
    assert local_shape(str(tmp_path)) is None


def test_what_the_recipe_says_counts_before_the_config() -> None:
    assert overlay(ModelShape(layers=4), ModelShape(layers=5, experts=8)) == ModelShape(
        layers=4, experts=8
    )


def test_a_variants_shape_counts_before_the_models_and_both_before_the_local_file(
    own: Catalog,
) -> None:
    recipe = "moonshotai/Kimi-K2.6"
    plain = own.resolve(Deployment(recipe=recipe), "h200")
    blocks = own.resolve(Deployment(recipe=recipe, variant="fp8"), "h200")
    assert (plain.shape.layers, plain.shape.quantization_block) == (61, None)
    assert (blocks.shape.layers, blocks.shape.quantization_block) == (61, 128)


def test_what_latent_attention_keeps_for_a_token_is_its_latent_and_rotary_part() -> None:
    assert shape_of_config({**DEEPSEEK, "qk_rope_head_dim": 64}).kv_latent == 576
    assert shape_of_config(DEEPSEEK).kv_latent is None


def test_layers_that_attend_to_the_whole_context_are_told_from_the_others() -> None:
    kinds = ["linear_attention", "linear_attention", "linear_attention", "full_attention"] * 12
    listed = shape_of_config({"num_hidden_layers": 48, "layer_types": kinds})
    by_interval = shape_of_config({"num_hidden_layers": 48, "full_attention_interval": 4})
    assert (listed.kv_layers, by_interval.kv_layers) == (12, 12)
    assert shape_of_config({"num_hidden_layers": 48}).kv_layers is None


def test_the_size_of_the_weights_is_the_indexs_else_the_files(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(DEEPSEEK))
    assert (local_shape(str(tmp_path)) or ModelShape()).weights_gb is None
    (tmp_path / "model.safetensors").write_bytes(b"x" * 2000)
    assert (local_shape(str(tmp_path)) or ModelShape()).weights_gb == 2e-6
    index = {"metadata": {"total_size": 688_586_727_753}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert (local_shape(str(tmp_path)) or ModelShape()).weights_gb == 688.586727753
    (tmp_path / "model.safetensors.index.json").write_text("[")
    assert (local_shape(str(tmp_path)) or ModelShape()).weights_gb is None
