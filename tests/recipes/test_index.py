from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.errors import InputError
from orchestrator.recipes import recipe_file
from orchestrator.recipes.directories import catalog_directories
from orchestrator.recipes.index import Index, load_index, parse_fits, select_entries
from tests.recipes.making import catalog_with, recipe_data


def index_of(directory: Path) -> Index:
    return load_index(catalog_directories(directory), directory / "cache")


def names(index: Index, **filters: Any) -> set[str]:
    found = select_entries(index, **filters)
    return {name for name in found if name.startswith("org/")}


@pytest.fixture
def made(tmp_path: Path) -> Path:
    catalog_with(tmp_path, recipe_data())
    recipes = {
        "big": recipe_data(variants={"default": {"vram_minimum_gb": 2000}}),
        "fp4": recipe_data(variants={"default": {"precision": "nvfp4", "vram_minimum_gb": 100}}),
        "single": recipe_data(compatible_strategies=["single_node_tp"], meta={"tasks": ["omni"]}),
        "not": recipe_data(meta={"hardware": {"h200": "unsupported"}}),
    }
    for name, data in recipes.items():
        (tmp_path / "models" / "org" / f"{name}.yaml").write_text(yaml.safe_dump(data))
    return tmp_path


def test_recipes_are_filtered_by_hardware_strategy_task_and_memory(made: Path) -> None:
    index = index_of(made)
    everything = {"org/model", "org/big", "org/fp4", "org/single", "org/not"}
    assert names(index) == everything
    assert names(index, hardware="h200") == {"org/model", "org/big", "org/single"}
    assert names(index, hardware="b200") == everything
    assert names(index, strategy="multi_node_tp") == everything - {"org/single"}
    assert names(index, task="omni") == {"org/single"}
    assert names(index, memory=300) == everything - {"org/big"}


def test_what_fits_counts_the_memory_of_so_many_hosts_and_strategies_over_them(made: Path) -> None:
    index = index_of(made)
    assert names(index, hardware="h200", nodes=1) == {"org/model", "org/single"}
    assert names(index, hardware="h200", nodes=2) == {"org/model", "org/big"}
    assert names(index, hardware="dgx_station_gb300", nodes=2) == set()


def test_the_variants_that_fit_are_named(made: Path) -> None:
    file = made / "models" / "org" / "model.yaml"
    file.write_text(yaml.safe_dump(recipe_data(variants={"fp8": {"vram_minimum_gb": 90}})))
    found = select_entries(index_of(made), memory=100)
    assert found["org/model"]["fitting"] == ["fp8"]


def test_fits_is_read_as_nodes_times_hardware() -> None:
    assert parse_fits("2xh200") == (2, "h200")
    assert parse_fits(" 16 × GB200 ") == (16, "gb200")
    for wrong in ("h200", "0xh200", "2x", "x"):
        with pytest.raises(InputError, match="NODESxHARDWARE"):
            parse_fits(wrong)


def test_an_unknown_hardware_is_an_error(made: Path) -> None:
    with pytest.raises(InputError, match="there is no hardware profile 'h20000'"):
        select_entries(index_of(made), hardware="h20000")


def test_a_changed_a_new_and_a_deleted_recipe_are_noticed(made: Path) -> None:
    index_of(made)
    models = made / "models" / "org"
    (models / "model.yaml").write_text(yaml.safe_dump(recipe_data(meta={"title": "Changed"})))
    (models / "new.yaml").write_text(yaml.safe_dump(recipe_data()))
    (models / "big.yaml").unlink()
    index = index_of(made)
    assert index.entries["org/model"]["title"] == "Changed"
    assert "org/new" in index.entries
    assert "org/big" not in index.entries


def test_a_changed_taxonomy_renews_every_entry(made: Path) -> None:
    index_of(made)
    profile = {"brand": "NVIDIA", "generation": "hopper", "gpu_count": 8, "vram_gb": 4000}
    (made / "taxonomy.yaml").write_text(yaml.safe_dump({"hardware_profiles": {"h999": profile}}))
    assert "org/big" in names(index_of(made), hardware="h999", nodes=1)


def test_only_what_changed_is_read_again(made: Path) -> None:
    index_of(made)
    cache = next((made / "cache").glob("recipes-*.json"))
    data = json.loads(cache.read_text())
    for entry in data["recipes"].values():
        entry[2] = entry[2] and entry[2] | {"title": "from the cache"}
    cache.write_text(json.dumps(data))
    (made / "models" / "org" / "model.yaml").write_text(
        yaml.safe_dump(recipe_data(meta={"title": "N"}))
    )
    index = index_of(made)
    assert index.entries["org/model"]["title"] == "N"
    assert index.entries["org/big"]["title"] == "from the cache"


def test_a_broken_recipe_is_a_fault_and_hides_no_other(made: Path) -> None:
    (made / "models" / "org" / "broken.yaml").write_text("meta: {")
    for index in (index_of(made), index_of(made)):  # read, and from the cache
        assert [fault for fault in index.faults if "broken.yaml" in fault]
        assert "org/model" in index.entries


def test_a_broken_or_unwritable_cache_is_done_without(made: Path) -> None:
    index_of(made)
    cache = next((made / "cache").glob("recipes-*.json"))
    cache.write_text("{")
    assert "org/model" in index_of(made).entries
    file_in_the_way = made / "file"
    file_in_the_way.write_text("")
    assert "org/model" in load_index(catalog_directories(made), file_in_the_way).entries


def test_a_warm_index_reads_no_recipe(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What makes `orc recipes list` fast; `make bench` prints how much."""
    cold = index_of(made)

    def read(*_: object) -> None:
        raise AssertionError("a recipe was read")

    monkeypatch.setattr(recipe_file, "read_recipe", read)
    assert index_of(made).entries == cold.entries
