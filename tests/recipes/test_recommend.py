"""What is chosen when nothing is said: strategy, tensor size, variant, image, hardware."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator.recipes.catalog import Catalog
from orchestrator.recipes.recommend import (
    default_variant,
    minimum_gpus,
    minimum_nodes,
    recommended_hardware,
    recommended_strategy,
)
from orchestrator.recipes.schema import Recipe
from tests.recipes.making import recipe_data, resolved


def recipe(**changes: Any) -> Recipe:
    return Recipe.model_validate(recipe_data(**changes))


@pytest.mark.parametrize(
    ("variant", "hardware", "size"),
    [
        ({"vram_minimum_gb": 100}, "h200", 1),  # fits one of 141 GB
        ({"vram_minimum_gb": 142}, "h200", 8),
        ({"vram_minimum_gb": 300}, "gb200", 4),
        ({}, "h200", 8),  # nothing known of its memory
        ({"tp": 4}, "h200", 4),
        ({"tp": 16}, "h200", 8),
        ({"tp": {"h200": 2, "default": 4}}, "h200", 2),
        ({"tp": {"h200": 2, "default": 4}}, "b200", 4),
        ({"tp": {"hopper": 2}}, "h100", 2),
        ({"tp": {"amd": 2}}, "mi300x", 2),
        ({"tp": 6}, "xeon6", 6),  # a CPU's count of devices is nominal
    ],
)
def test_the_tensor_size_on_one_node_is_the_variants_or_fitted_to_memory(
    tmp_path: Path, variant: dict[str, Any], hardware: str, size: int
) -> None:
    found = resolved(tmp_path, recipe_data(variants={"default": variant}), hardware)
    assert found.fitted_tensor == size


def test_the_variants_tensor_size_counts_before_the_strategy_overrides(tmp_path: Path) -> None:
    data = recipe_data(strategy_overrides={"single_node_tp": {"tp": 2}})
    assert resolved(tmp_path, data).fitted_tensor == 2
    data = recipe_data(
        strategy_overrides={"single_node_tp": {"tp": 2}}, variants={"default": {"tp": 4}}
    )
    assert resolved(tmp_path, data).fitted_tensor == 4
    assert resolved(tmp_path, data, strategy="multi_node_tp").fitted_tensor is None


@pytest.mark.parametrize(
    ("changes", "nodes", "strategy"),
    [
        ({}, 1, "single_node_tp"),
        ({}, 2, "multi_node_tp"),
        ({"variants": {"default": {"vram_minimum_gb": 2000}}}, None, "multi_node_tp"),
        ({"variants": {"default": {"vram_minimum_gb": 900}}}, None, "single_node_tp"),
        ({"default_strategy": "multi_node_tp"}, 1, "multi_node_tp"),
        (
            {
                "default_strategy": "single_node_tep",
                "compatible_strategies": ["single_node_tp", "single_node_tep", "multi_node_tep"],
            },
            2,
            "multi_node_tep",
        ),
        ({"compatible_strategies": ["single_node_tp"]}, 2, "single_node_tp"),
        ({"strategy_hardware": {"multi_node_tp": {"hopper": "unsupported"}}}, 2, "single_node_tp"),
        (
            {
                "compatible_strategies": ["single_node_tp"],
                "strategy_hardware": {"multi_node_dep": {"h200": "supported"}},
            },
            2,
            "multi_node_dep",
        ),
    ],
)
def test_the_recommended_strategy_follows_the_nodes_the_memory_and_the_gates(
    own: Catalog, changes: dict[str, Any], nodes: int | None, strategy: str
) -> None:
    found = recommended_strategy(recipe(**changes), "default", own.hardware("h200"), nodes)
    assert found == strategy


def test_hosts_that_cannot_be_joined_are_one_node(own: Catalog) -> None:
    large = recipe(variants={"default": {"vram_minimum_gb": 900}})
    assert minimum_nodes(large, "default", own.hardware("dgx_station_gb300")) == 1
    assert minimum_nodes(large, "default", own.hardware("dgx_spark_gb10")) == 8


def test_the_gpu_floor_is_the_highest_of_strategy_and_hardware(own: Catalog) -> None:
    floors = recipe(
        strategy_min_gpus={"multi_node_tp": 8, "h100": 32, "gb200": {"multi_node_tp": 16}}
    )
    sizes = {
        name: minimum_gpus(floors, "multi_node_tp", own.hardware(name))
        for name in ("h200", "h100", "gb200")
    }
    assert sizes == {"h200": 8, "h100": 32, "gb200": 16}
    assert minimum_gpus(recipe(strategy_min_gpus=4), "single_node_tp", own.hardware("h200")) == 4
    assert minimum_gpus(recipe(), "single_node_tp", own.hardware("h200")) == 0


def test_the_default_variant_may_depend_on_the_brand(own: Catalog, tmp_path: Path) -> None:
    data = recipe_data(
        meta={"default_variant": {"amd": "small"}}, variants={"small": {"model_id": "org/small"}}
    )
    assert default_variant(Recipe.model_validate(data), own.hardware("mi300x")) == "small"
    assert resolved(tmp_path, data, "mi300x").model == "org/small"
    assert resolved(tmp_path, data, "h200").model == "org/model"
    assert resolved(tmp_path, data, "mi300x", variant="default").model == "org/model"


@pytest.mark.parametrize(
    ("changes", "hardware"),
    [
        ({}, "h200"),
        ({"meta": {"default_hardware": "b300"}}, "b300"),
        ({"meta": {"hardware": {"h200": "unsupported"}}}, "b200"),
        ({"variants": {"default": {"precision": "nvfp4"}}}, "b200"),
        ({"variants": {"default": {"supported_hardware": ["arch:gfx950"]}}}, "mi350x"),
        ({"variants": {"default": {"supported_hardware": ["xeon6"]}}}, None),
    ],
)
def test_the_recommended_hardware_is_one_that_runs_the_variant(
    own: Catalog, changes: dict[str, Any], hardware: str | None
) -> None:
    found = recipe(**changes)
    assert recommended_hardware(found, found.variants["default"], own.profiles) == hardware


@pytest.mark.parametrize(
    ("changes", "hardware", "image"),
    [
        ({}, "h200", "vllm/vllm-openai:latest"),
        ({}, "mi300x", "vllm/vllm-openai-rocm:latest"),
        ({}, "xeon6", "vllm/vllm-openai-cpu:latest-x86_64"),
        ({}, "arc_pro_b60", "vllm/vllm-openai-xpu:latest"),
        ({}, "trillium", "vllm/vllm-tpu:latest"),
        ({"model": {"nightly_required": True}}, "h200", "vllm/vllm-openai:nightly"),
        ({"model": {"docker_image": "mine:1"}}, "h200", "mine:1"),
        ({"model": {"docker_image": "mine:1"}}, "mi300x", "vllm/vllm-openai-rocm:latest"),
        ({"model": {"docker_image": {"amd": "rocm:1"}}}, "mi300x", "rocm:1"),
        ({"model": {"docker_image": {"cu129": "a:9", "cu130": "a:13"}}}, "h200", "a:13"),
        ({"model": {"docker_image": {"nvidia": {"cu129": "a:9"}}}}, "h200", "a:9"),
        (
            {
                "model": {"docker_image": {"nvidia": "model:1"}},
                "variants": {"default": {"docker_image": {"amd": "variant:1"}}},
            },
            "h200",
            "model:1",
        ),
        (
            {
                "variants": {
                    "default": {
                        "docker_image": "variant:1",
                        "hardware_overrides": {"h200": {"docker_image": "exact:1"}},
                    }
                }
            },
            "h200",
            "exact:1",
        ),
    ],
)
def test_the_image_is_the_most_exact_one_of_the_brand(
    tmp_path: Path, changes: dict[str, Any], hardware: str, image: str
) -> None:
    assert resolved(tmp_path, recipe_data(**changes), hardware).image == image


def test_the_users_image_wins(tmp_path: Path) -> None:
    assert resolved(tmp_path, recipe_data(), image="my:2").image == "my:2"


@pytest.mark.parametrize(
    ("hardware", "first"),
    [
        ("h200", ("--gpus", "all")),
        ("mi300x", ("--device=/dev/kfd", "--device=/dev/dri")),
        ("arc_pro_b60", ("--device", "/dev/dri")),
        ("ascend_910c", ("--device", "/dev/davinci0")),
        ("trillium", ("--privileged", "--network")),
        ("cpu", ("--shm-size", "16g")),
    ],
)
def test_the_device_flags_follow_the_brand(
    tmp_path: Path, hardware: str, first: tuple[str, str]
) -> None:
    assert resolved(tmp_path, recipe_data(), hardware).docker_flags[:2] == first
