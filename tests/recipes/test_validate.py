from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.errors import ErrorGroup, InputError
from orchestrator.recipes.add import add_recipe
from orchestrator.recipes.catalog import Catalog
from orchestrator.recipes.validate import validate_file, validate_path
from tests.recipes.making import recipe_data


@pytest.mark.parametrize(("directory", "files"), [("catalog", 107), ("catalog-0.33", 188)])
def test_every_public_file_passes(shared: Path, directory: str, files: int) -> None:
    path = shared / directory
    count, faults = validate_path(path, Catalog.load(path))
    assert faults == []
    assert count >= files
    assert len(list((path / "models").glob("*/*.yaml"))) == files


def test_our_own_catalog_passes(own: Catalog) -> None:
    count, faults = validate_path(own.directories[-1], own)
    assert faults == []
    assert count > 40


@pytest.mark.parametrize(
    ("changes", "line_of", "message", "hint"),
    [
        (
            {"compatible_strategies": ["single_node_tp", "multi_node_pt"]},
            "multi_node_pt",
            "compatible_strategies.1: there is no strategy 'multi_node_pt'",
            "multi_node_tp",
        ),
        (
            {"strategy_overrides": {"single_tp": {"tp": 1}}},
            "single_tp",
            "strategy_overrides.single_tp: there is no strategy 'single_tp'",
            "single_node_tp",
        ),
        (
            {"meta": {"hardware": {"h2000": "unsupported"}}},
            "h2000",
            "meta.hardware.h2000: there is no hardware profile 'h2000'",
            "h200",
        ),
        (
            {"hardware_overrides": {"hoper": {"extra_args": ["--x"]}}},
            "hoper",
            "hardware_overrides.hoper: there is no hardware 'hoper'",
            "hopper",
        ),
        (
            {"variants": {"default": {"supported_hardware": ["arch:sm99"]}}},
            "arch:sm99",
            "variants.default.supported_hardware.0: there is no hardware profile 'arch:sm99'",
            "",
        ),
        (
            {"opt_in_features": ["toolz"], "features": {"tools": {"args": ["--t"]}}},
            "toolz",
            "opt_in_features.0: there is no feature 'toolz'",
            "tools",
        ),
        (
            {"features": {"f": {"modes": {"m": {"variants": ["fused"]}}}}},
            "fused",
            "features.f.modes.m.variants.0: there is no variant 'fused'",
            "default",
        ),
        (
            {
                "variants": {"default": {"default_modes": {"f": "z"}}},
                "features": {"f": {"modes": {"m": {}}}},
            },
            "f: z",
            "variants.default.default_modes.f: feature 'f' has no mode 'z'",
            "m",
        ),
        (
            {
                "variants": {"default": {"default_modes": {"f": "m"}}, "other": {}},
                "features": {"f": {"modes": {"m": {"variants": ["other"]}}}},
            },
            "f: m",
            "mode 'm' is not for variant 'default'",
            "other",
        ),
        (
            {"kv_offload_support": {"simpel": "verified"}},
            "simpel",
            "kv_offload_support.simpel: there is no KV offload 'simpel'",
            "simple",
        ),
        ({"meta": {"tasks": ["txt"]}}, "txt", "meta.tasks.0: there is no task 'txt'", "text"),
    ],
)
def test_a_name_that_refers_to_nothing_is_a_fault_with_its_line(
    own: Catalog,
    tmp_path: Path,
    changes: dict[str, Any],
    line_of: str,
    message: str,
    hint: str,
) -> None:
    file = tmp_path / "recipe.yaml"
    text = yaml.safe_dump(recipe_data(**changes), sort_keys=False)
    file.write_text(text)
    (fault,) = validate_file(file, own)
    line = next(n for n, found in enumerate(text.splitlines(), 1) if line_of in found)
    assert f"{file}:{line}: " in str(fault)
    assert message in str(fault)
    assert hint in str(fault)


FAULTY = """\
meta: {tasks: [txt]}
model: {architecture: huge}
variants:
  default: {tp: {hoper: 8}, extra_args: 5, default_modes: {f: z}}
features:
  f: {args: [--x], modes: {m: {variants: [other]}}, strategies: [foo], default_mode: q}
  g: 7
opt_in_features: [g, 3, toolz]
compatible_strategies: [multi_node_pt, 4, b]
unknown: 1
"""


def test_faults_of_the_schema_hide_no_wrong_reference(own: Catalog, tmp_path: Path) -> None:
    file = tmp_path / "recipe.yaml"
    file.write_text(FAULTY)
    said = [
        str(fault).splitlines()[0].removeprefix(f"{file}:") for fault in validate_file(file, own)
    ]
    assert [line.partition(": ")[::2] for line in said if "there is no" not in line] == [
        ("1", "meta.title: field required"),
        ("2", "model.model_id: field required"),
        ("2", "model.architecture: input should be 'dense' or 'moe', not 'huge'"),
        ("4", "variants.default.extra_args: arguments are a list of words, "
         "such as ['--max-num-seqs', '512'], not 5"),
        ("6", "features.f.args: a feature has either args or modes: with modes, "
         "each mode brings its own args"),
        ("6", "features.f.default_mode: one of its modes: m, not 'q'"),
        ("7", "features.g: this is a mapping of fields, not 7"),
        ("8", "opt_in_features.1: input should be a valid string, not 3"),
        ("9", "compatible_strategies.1: input should be a valid string, not 4"),
        ("10", "unknown key 'unknown'"),
        ("4", "variants.default.default_modes.f: feature 'f' has no mode 'z'"),
    ]  # fmt: skip
    assert [line for line in said if "there is no" in line] == [
        "9: compatible_strategies.0: there is no strategy 'multi_node_pt'",
        "9: compatible_strategies.2: there is no strategy 'b'",
        "6: features.f.strategies.0: there is no strategy 'foo'",
        "4: variants.default.tp.hoper: there is no hardware 'hoper'",
        "8: opt_in_features.2: there is no feature 'toolz'",
        "6: features.f.modes.m.variants.0: there is no variant 'other'",
        "1: meta.tasks.0: there is no task 'txt'",
    ]


@pytest.mark.parametrize("text", ["meta: 5\n", "model: []\n", "variants: {}\n", "features: 1\n"])
def test_a_part_that_is_wholly_wrong_hides_none_either(
    own: Catalog, tmp_path: Path, text: str
) -> None:
    file = tmp_path / "recipe.yaml"
    file.write_text(text + "compatible_strategies: [b]\n")
    assert any("there is no strategy 'b'" in str(fault) for fault in validate_file(file, own))


def test_what_is_no_mapping_at_all_is_one_fault(own: Catalog, tmp_path: Path) -> None:
    file = tmp_path / "recipe.yaml"
    file.write_text("[1]")
    assert len(validate_file(file, own)) == 1


def test_all_faults_of_all_files_are_found_at_once(own: Catalog, tmp_path: Path) -> None:
    wrong = recipe_data(compatible_strategies=["a", "b"])
    (tmp_path / "one.yaml").write_text(yaml.safe_dump(wrong))
    (tmp_path / "two.yaml").write_text("{")
    (tmp_path / "three.json").write_text("{}")
    (tmp_path / "notes.txt").write_text("not looked at")
    count, faults = validate_path(tmp_path, own)
    assert (count, len(faults)) == (3, 4)


def test_a_directory_without_recipes_is_an_error(own: Catalog, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no recipe here"):
        validate_path(tmp_path, own)


def test_a_valid_recipe_is_added_and_then_found(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(recipe_data()))
    directory = tmp_path / "catalog"
    name, target = add_recipe(file, directory)
    assert (name, target) == ("org/model", directory / "models" / "org" / "model.yaml")
    assert Catalog.load(directory).recipe("org/model").recipe.model.model_id == "org/model"
    assert [path.name for path in target.parent.iterdir()] == ["model.yaml"]


def test_the_sites_json_is_added_as_it_is(shared: Path, tmp_path: Path) -> None:
    file = shared / "cases" / "kimi-k2.6.json"
    name, target = add_recipe(file, tmp_path / "catalog")
    assert name == "moonshotai/Kimi-K2.6"
    assert target.read_bytes() == file.read_bytes()
    assert Catalog.load(tmp_path / "catalog").recipe(name).document.path == str(target)


def test_a_taken_name_is_refused_unless_it_is_to_be_replaced(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(recipe_data()))
    _, first = add_recipe(file, tmp_path / "catalog")
    first.rename(first.with_suffix(".yml"))
    with pytest.raises(InputError, match="there is a recipe org/model already"):
        add_recipe(file, tmp_path / "catalog")
    _, target = add_recipe(file, tmp_path / "catalog", replace=True)
    assert [path.name for path in target.parent.iterdir()] == ["model.yaml"]


def test_an_invalid_recipe_is_not_added(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(recipe_data(compatible_strategies=["a", "b"])))
    with pytest.raises(ErrorGroup) as caught:
        add_recipe(file, tmp_path / "catalog")
    assert len(caught.value.errors) == 2
    assert not (tmp_path / "catalog").exists()


@pytest.mark.parametrize("name", ["model", "a/b/c", "../x/y", "a/..", "/a/b"])
def test_a_name_that_would_leave_the_catalog_is_refused(tmp_path: Path, name: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(recipe_data()))
    with pytest.raises(InputError, match="is not the name of a recipe"):
        add_recipe(file, tmp_path / "catalog", name=name)
