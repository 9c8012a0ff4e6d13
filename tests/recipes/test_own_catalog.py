"""The catalog that ships with orc: whole, and equal in its facts to the public one."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.cli.recipe_commands import node_commands
from orchestrator.deployment import Deployment
from orchestrator.recipes.catalog import Catalog
from orchestrator.recipes.recommend import recommended_hardware
from orchestrator.recipes.vllm_versions import HISTORY

CASES_STRATEGIES = {
    "single_node_tp",
    "single_node_tep",
    "single_node_dep",
    "multi_node_tp",
    "multi_node_tp_pp",
    "multi_node_dep",
    "multi_node_tep",
    "multi_node_tp_dp",
    "pd_cluster",
    "kv_store_centralized_mooncake",
    "kv_store_distributed_mooncake",
}


def test_all_strategies_of_the_two_documents_are_there(own: Catalog) -> None:
    assert set(own.strategies) | set(own.kv_stores) >= CASES_STRATEGIES
    assert set(own.taxonomy.strategies) == set(own.strategies)


def test_the_flagship_models_are_there_with_their_shapes(own: Catalog) -> None:
    names = own.names()
    assert len([name for name in names if not name.startswith("orc/")]) >= 20
    for name in names:
        recipe = own.recipe(name).recipe
        shape = recipe.model.shape
        assert shape is not None, name
        assert shape.layers and shape.attention_heads and shape.kv_heads and shape.hidden_size, name
        experts = (shape.experts, shape.moe_intermediate_size)
        assert all(experts) if recipe.model.architecture == "moe" else not any(experts), name


def test_guides_are_short_and_link_to_the_model(own: Catalog) -> None:
    for name in own.names():
        guide = own.recipe(name).recipe.guide
        assert 0 < len(guide.split()) < 80, name
        assert name.startswith("orc/") or f"https://huggingface.co/{name}" in guide


def test_every_recommended_selection_can_be_resolved_and_shown(own: Catalog) -> None:
    for name in own.names():
        recipe = own.recipe(name).recipe
        hardware = recommended_hardware(recipe, recipe.variants["default"], own.profiles)
        assert hardware is not None, name
        deployment = Deployment(recipe=name)
        resolved = own.resolve(deployment, hardware)
        nodes = 1 if resolved.strategy.deploy_type == "single_node" else 2
        commands = node_commands(resolved, deployment, nodes)
        assert commands[0].argv[:2] == ["vllm", "serve"]


def test_the_tiny_models_run_on_cpus_with_the_measured_settings(own: Catalog) -> None:
    several = own.resolve(Deployment(recipe="orc/tiny-llama", strategy="multi_node_tp"), "cpu")
    assert several.image == "vllm-cpu:0.32.0"
    assert several.has("--enforce-eager")
    assert several.env["VLLM_CPU_KVCACHE_SPACE"] == "1"
    pipeline = own.resolve(Deployment(recipe="orc/tiny-llama", strategy="multi_node_tp_pp"), "cpu")
    assert "--no-enforce-eager" in pipeline.argv() and not pipeline.has("--enforce-eager")
    assert '{"mode": 2, "backend": "eager"}' in pipeline.argv()  # nothing is compiled


@pytest.mark.parametrize("kind", ["strategies", "kv_stores"])
def test_strategies_and_stores_say_what_the_public_ones_say(
    own: Catalog, shared: Path, kind: str
) -> None:
    public = Catalog.load(shared / "catalog")
    texts = {"description", "display_name", "label", "order", "orientation", "hardware_match"}
    for name, theirs in getattr(public, kind).items():
        ours = getattr(own, kind)[name]
        for field in type(theirs).model_fields.keys() - texts:
            if kind == "kv_stores" and field in {
                "mooncake_master",
                "mooncake_store_config",
                "mooncake_vllm_config",
                "router",
            }:
                continue
            assert getattr(ours, field) == getattr(theirs, field), (name, field)


def test_kv_stores_are_configured_as_the_public_ones(own: Catalog, shared: Path) -> None:
    public = Catalog.load(shared / "catalog")
    for name, theirs in public.kv_stores.items():
        ours = own.kv_stores[name]
        assert ours.mooncake_vllm_config.template == theirs.mooncake_vllm_config.template
        assert ours.mooncake_vllm_config.mode == theirs.mooncake_vllm_config.mode
        if theirs.mooncake_store_config:
            assert ours.mooncake_store_config is not None
            assert ours.mooncake_store_config.config == theirs.mooncake_store_config.config
            assert ours.mooncake_store_config.command == theirs.mooncake_store_config.command
        lines = theirs.mooncake_master.command.splitlines()
        command = " ".join(line for line in lines if not line.startswith("#"))
        assert ours.mooncake_master.command.split() == command.replace("\\", "").split()


def test_hardware_profiles_and_kv_offloads_have_the_public_facts(
    own: Catalog, shared: Path
) -> None:
    public = Catalog((shared / "catalog",))
    for name, theirs in public.taxonomy.hardware_profiles.items():
        ours = own.taxonomy.hardware_profiles[name]
        for field in ("brand", "generation", "gpu_count", "vram_gb", "scalable", "restricted"):
            assert getattr(ours, field) == getattr(theirs, field), (name, field)
    assert own.hardware("mi350x").vram_gb == 2304
    for name, option in public.taxonomy.kv_offload.items():
        mine = own.taxonomy.kv_offload[name]
        for field in ("args", "env", "strategies", "brands", "requires_opt_in", "group", "install"):
            assert getattr(mine, field) == getattr(option, field), (name, field)


def test_the_models_resolve_as_the_newer_public_ones(own: Catalog, shared: Path) -> None:
    """Facts are taken over: the same arguments, image and environment by default.

    One thing is wider here: a default checkpoint is not held to the hardware it was verified on.
    And a flag that vLLM no longer has is written as the one that took its place.
    """
    renamed = {h.flag: h.instead for h in HISTORY if h.instead and h.instead.startswith("--")}

    public = Catalog.load(shared / "catalog-0.33")
    compared = 0
    for name in own.names():
        if not (shared / "catalog-0.33" / "models" / f"{name}.yaml").is_file():
            continue
        allowed = public.recipe(name).recipe.variants["default"].supported_hardware
        for hardware in allowed or ("h200", "b200", "mi300x"):
            for strategy in own.recipe(name).recipe.compatible_strategies:
                chosen = Deployment(recipe=name, strategy=strategy)
                ours, theirs = own.resolve(chosen, hardware), public.resolve(chosen, hardware)
                expected = [renamed.get(word, word) for word in theirs.argv()]
                assert ours.argv() == expected, (name, hardware, strategy)
                assert (ours.image, ours.env, ours.features) == (
                    theirs.image,
                    theirs.env,
                    theirs.features,
                )
                for role, pool in theirs.pools.items():
                    words = [renamed.get(word, word) for word in theirs.pool_argv(pool.parts)]
                    assert ours.pool_argv(ours.pools[role].parts) == words
                    assert ours.pools[role].parts.env == pool.parts.env
                    for field in ("nodes", "parallelism", "tensor"):
                        assert getattr(ours.pools[role], field) == getattr(pool, field)
                assert ours.fixed_parallel == theirs.fixed_parallel
                assert ours.fitted_tensor == theirs.fitted_tensor
                compared += 1
    assert compared > 300
