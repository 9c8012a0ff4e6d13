"""What a user may get wrong, and the message that comes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import InputError
from orchestrator.recipes.catalog import Catalog
from tests.recipes.making import catalog_with, recipe_data, resolved

GATED = recipe_data(
    meta={"hardware": {"h100": "unsupported", "h200": "verified"}},
    variants={
        "nvfp4": {"precision": "nvfp4"},
        "wide": {"precision": "nvfp4", "precision_hardware": {"brand": "NVIDIA"}},
        "exact": {"supported_hardware": ["b200", "arch:gfx950"]},
    },
    strategy_hardware={"multi_node_tp": {"amd": "unsupported"}},
    kv_offload_support={"simple": "unsupported"},
    kv_cache_strategy_hardware={"kv_store_distributed_mooncake": {"h200": "unsupported"}},
)


@pytest.mark.parametrize(
    ("hardware", "selection", "what", "detail"),
    [
        ("h100", {}, "the recipe marks h100 as unsupported (meta.hardware.h100)", "h200"),
        ("h200", {"variant": "nvfp"}, "recipe org/model has no variant 'nvfp'", "'nvfp4'"),
        (
            "h200",
            {"variant": "nvfp4"},
            "needs NVIDIA blackwell, and h200 is NVIDIA hopper",
            "default, wide",
        ),
        ("mi300x", {"variant": "wide"}, "needs NVIDIA, and mi300x is AMD amd", "default"),
        ("h200", {"variant": "exact"}, "variant 'exact' does not run on h200", "b200, arch:gfx950"),
        ("h200", {"strategy": "multi_tp"}, "there is no strategy 'multi_tp'", "multi_node_tp"),
        (
            "h200",
            {"strategy": "multi_node_dep"},
            "does not allow strategy 'multi_node_dep' on h200",
            "it is not in compatible_strategies",
        ),
        (
            "mi300x",
            {"strategy": "multi_node_tp"},
            "does not allow strategy 'multi_node_tp' on mi300x",
            "strategy_hardware.multi_node_tp rules it out there",
        ),
        ("h200", {"kv_offload": "simpel"}, "there is no KV offload 'simpel'", "'simple'"),
        (
            "h200",
            {"kv_offload": "simple"},
            "KV offload 'simple' cannot be used here",
            "kv_offload_support.simple",
        ),
        (
            "h200",
            {"kv_offload": "offloading_cpu"},
            "KV offload 'offloading_cpu' cannot be used here",
            "needs a recipe that lists it as verified",
        ),
        (
            "h200",
            {"kv_offload": "lmcache", "strategy": "multi_node_tp"},
            "KV offload 'lmcache' cannot be used here",
            "not multi_node_tp",
        ),
        (
            "h200",
            {"kv_offload": "kv_store_distributed_mooncake"},
            "does not run on h200",
            "kv_cache_strategy_hardware.kv_store_distributed_mooncake",
        ),
        (
            "h200",
            {"strategy": "kv_store_distributed_mooncake", "kv_offload": "lmcache"},
            "is itself a KV offload",
            "as kv_offload and a serving strategy as strategy",
        ),
        ("h200", {"pools": {"prefill": 1}}, "pools are for pd_cluster", "single_node_tp"),
    ],
)
def test_a_selection_that_the_recipe_forbids_is_refused(
    tmp_path: Path, hardware: str, selection: dict[str, Any], what: str, detail: str
) -> None:
    with pytest.raises(InputError) as caught:
        resolved(tmp_path, GATED, hardware, **selection)
    assert what in str(caught.value)
    assert detail in str(caught.value)
    assert "models/org/model.yaml" in str(caught.value)


def test_a_precision_that_the_variant_widens_is_allowed(tmp_path: Path) -> None:
    assert resolved(tmp_path, GATED, "h200", variant="wide").precision == "nvfp4"
    assert resolved(tmp_path, GATED, "mi355x", variant="exact").variant == "exact"


def test_a_pool_in_a_mode_that_no_strategy_of_the_recipe_has_is_refused(tmp_path: Path) -> None:
    data = recipe_data(compatible_strategies=["multi_node_tp", "pd_cluster"])
    with pytest.raises(InputError) as caught:
        resolved(
            tmp_path,
            data,
            strategy="pd_cluster",
            pools={"decode": {"nodes": 2, "parallelism": "dep"}},
        )
    assert "the decode pool cannot be 'dep'" in str(caught.value)
    assert "tp" in str(caught.value)


def test_an_override_for_an_unknown_strategy_is_an_error(tmp_path: Path) -> None:
    data = recipe_data(strategy_overrides={"single_node_pt": {"tp": 1}})
    with pytest.raises(InputError) as caught:
        resolved(tmp_path, data)
    assert "strategy_overrides.single_node_pt: there is no such strategy" in str(caught.value)
    assert "did you mean 'single_node_tp'?" in str(caught.value)


@pytest.mark.parametrize(
    ("wanted", "hint"),
    [
        ("moonshotai/kimi-k26", "did you mean 'moonshotai/Kimi-K2.6'?"),
        ("Kimi-K2.6", "did you mean 'moonshotai/Kimi-K2.6'?"),
        ("other/qwen3-8b", "did you mean 'Qwen/Qwen3-8B'?"),
        ("xyzzy", "`orc recipes list` shows what there is"),
        ("../models/moonshotai/Kimi-K2.6", "did you mean 'moonshotai/Kimi-K2.6'?"),
    ],
)
def test_an_unknown_recipe_names_the_nearest(own: Catalog, wanted: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        own.recipe(wanted)
    assert f"there is no recipe {wanted!r}" in str(caught.value)
    assert hint in str(caught.value)


def test_an_unknown_hardware_names_the_nearest(own: Catalog) -> None:
    with pytest.raises(InputError) as caught:
        own.hardware("h20o")
    assert "there is no hardware profile 'h20o'" in str(caught.value)
    assert "did you mean 'h20'?" in str(caught.value) or "did you mean 'h200'?" in str(caught.value)


YAML = """\
meta: {title: T}
model:
  model_id: org/model
  architecture: moe
variants:
  default: {precision: bf16}
compatible_strategies: [single_node_tp]
"""


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (YAML + "featurs: {}\n", 8, "unknown key 'featurs'"),
        (YAML + "features:\n  f: {arg: []}\n", 9, "unknown key 'features.f.arg'"),
        (
            YAML + "features:\n  f: {args: [--x], modes: {m: {args: [--y]}}}\n",
            9,
            "a feature has either args or modes",
        ),
        (YAML + "features:\n  f: {modes: {}}\n", 9, "modes hold at least one mode"),
        (
            YAML + "features:\n  f: {default_mode: z, modes: {m: {args: [--y]}}}\n",
            9,
            "features.f.default_mode: one of its modes: m, not 'z'",
        ),
        (
            YAML + "hardware_overrides: {amd: {extra_args: --x}}\n",
            8,
            "arguments are a list of words",
        ),
        (YAML + "hardware_overrides: {amd: {extra_args: [true]}}\n", 8, "quote it"),
        (YAML + "hardware_overrides: {amd: {extra_env: [A]}}\n", 8, "an environment is a mapping"),
        (YAML.replace("moe", "huge"), 4, "model.architecture"),
        (
            YAML.replace("  default: {precision: bf16}\n", "  {}\n"),
            5,
            "a recipe has at least one variant",
        ),
        (YAML.replace("meta: {title: T}\n", ""), 1, "meta: field required"),
        (YAML + "meta: {title: again}\n", 8, "'meta' stands here twice"),
        ("[1, 2\n", 2, "did not find expected"),
    ],
)
def test_a_fault_in_a_file_is_named_with_file_line_and_path(
    tmp_path: Path, text: str, line: int, message: str
) -> None:
    catalog = catalog_with(tmp_path, text)
    with pytest.raises(InputError) as caught:
        catalog.recipe("org/model")
    assert message in str(caught.value)
    assert f"models/org/model.yaml:{line}" in str(caught.value)


def test_an_unknown_key_names_the_nearest_right_one(tmp_path: Path) -> None:
    catalog = catalog_with(tmp_path, YAML + "featurs: {}\n")
    with pytest.raises(InputError) as caught:
        catalog.recipe("org/model")
    assert "did you mean 'features'?" in str(caught.value)


def test_a_flag_and_its_value_written_as_one_word_are_two(tmp_path: Path) -> None:
    data = recipe_data(model={"base_args": ["--max-model-len auto", "--x", "a b", 7, ""]})
    assert resolved(tmp_path, data).argv()[3:] == ["--max-model-len", "auto", "--x", "a b", "7"]


@pytest.mark.parametrize(
    ("make", "message"),
    [(None, "no such directory"), ("empty", "not a catalog: it has no models/")],
)
def test_a_directory_that_is_no_catalog_is_refused(
    tmp_path: Path, make: str | None, message: str
) -> None:
    directory = tmp_path / "catalog"
    if make:
        directory.mkdir()
    with pytest.raises(InputError) as caught:
        Catalog.load(directory)
    assert message in str(caught.value)
    assert str(directory) in str(caught.value)


def test_a_missing_file_is_named(own: Catalog, tmp_path: Path) -> None:
    for suffix in (".yaml", ".json", ".md"):
        missing = tmp_path / f"absent{suffix}"
        with pytest.raises(InputError, match="no such file"):
            own.recipe(str(missing))
