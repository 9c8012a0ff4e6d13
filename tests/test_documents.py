"""Reading YAML: every fault is shown with file, line and the right name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from orchestrator.deployment import Deployment
from orchestrator.documents import parse_document, read_document
from orchestrator.errors import InputError
from orchestrator.yaml_loader import VaultText


def fault(text: str) -> str:
    document = parse_document(text, "d.yml")
    with pytest.raises(InputError) as caught:
        document.validate(Deployment)
    return str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.yml: no such file"):
        read_document(tmp_path / "none.yml")


def test_a_directory_or_binary_file_is_an_error_and_no_traceback(tmp_path: Path) -> None:
    binary = tmp_path / "b.yml"
    binary.write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path, binary):
        with pytest.raises(InputError, match="cannot be read"):
            read_document(path)


def test_broken_yaml_shows_file_line_column_and_the_line_itself() -> None:
    with pytest.raises(InputError) as caught:
        parse_document("all:\n  hosts: [a, b\n  vars: {}\n", "inv.yml")
    message = str(caught.value)
    assert message.startswith("inv.yml:3:")
    assert "  vars: {}" in message


def test_a_tab_is_shown_where_it_stands() -> None:
    with pytest.raises(InputError) as caught:
        parse_document("all:\n\thosts: {}\n", "inv.yml")
    assert "inv.yml:2:1" in str(caught.value)


def test_a_key_given_twice_is_refused_at_its_second_place() -> None:
    with pytest.raises(InputError, match=r"inv\.yml:3:1: 'a' stands here twice"):
        parse_document("a: 1\nb: 2\na: 3\n", "inv.yml")


def test_merge_keys_are_no_duplicates() -> None:
    data = parse_document("x: &x {a: 1}\ny:\n  <<: *x\n  a: 2\n", "f.yml").data
    assert data["y"] == {"a": 2}


def test_vault_values_are_kept_apart() -> None:
    data = parse_document("a: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  00\n", "f.yml").data
    assert data["a"] == VaultText("$ANSIBLE_VAULT;1.1;AES256\n00\n")


def test_python_objects_are_not_made() -> None:
    with pytest.raises(InputError, match="could not determine a constructor"):
        parse_document("a: !!python/object/apply:os.system [id]\n", "f.yml")


def test_an_unknown_key_names_file_line_and_the_nearest_key() -> None:
    message = fault("recipe: a/b\nstratgy: x\n")
    assert message.startswith("d.yml:2: unknown key 'stratgy'\n")
    assert "did you mean 'strategy'?" in message


def test_an_unknown_nested_key_is_matched_against_its_own_level() -> None:
    message = fault("recipe: a/b\nparallel:\n  tensr: 8\n")
    assert message.startswith("d.yml:3: unknown key 'parallel.tensr'\n")
    assert "did you mean 'tensor'?" in message


def test_a_wrong_type_names_path_value_and_line() -> None:
    message = fault("recipe: a/b\nparallel:\n  tensor: eight\n")
    assert message.startswith("d.yml:3: parallel.tensor: ")
    assert "'eight'" in message


def test_a_wrong_duration_says_what_a_duration_is() -> None:
    message = fault("recipe: a/b\nhealth:\n  timeout: soon\n")
    assert "health.timeout: a duration is a number with ms, s, m or h" in message


def test_a_document_of_another_kind_is_refused() -> None:
    assert "d.yml:1" in fault("- a\n- b\n")
    assert fault("").startswith("d.yml:1: ")


def test_several_faults_are_shown_together() -> None:
    message = fault("recipe: a/b\nnodes: 0\nport: 99999\n")
    first, second = message.splitlines()
    assert first.startswith("d.yml:2: nodes: ")
    assert second.startswith("d.yml:3: port: ")


def test_a_value_that_contains_itself_is_refused_and_one_that_is_shared_is_not() -> None:
    with pytest.raises(InputError, match="an alias"):
        parse_document("a: &a {b: [*a]}", "x.yml")
    shared = parse_document("a: &a {b: 1}\nc: [*a, *a]\n", "x.yml")
    assert shared.data["c"] == [{"b": 1}, {"b": 1}]


@pytest.mark.parametrize("section", ["router", "health", "parallel"])
def test_true_in_place_of_a_section_is_answered_with_how_to_write_it(section: str) -> None:
    message = fault(f"recipe: a/b\n{section}: true\n")
    assert message == (
        f"d.yml:2: {section}: this is a mapping of fields, not True\n"
        f"  do:  for all its defaults write `{section}: {{}}`"
    )
    message = fault(f"recipe: a/b\n{section}: false\n")
    assert message.endswith("this is a mapping of fields, not False\n  do:  leave it out")


@pytest.mark.parametrize("name", ["router", "health", "parallel", "kv_store", "args", "pools"])
@pytest.mark.parametrize("value", ["true", "[a]", "text", "5"])
def test_what_is_no_mapping_is_refused_in_words_of_yaml(name: str, value: str) -> None:
    message = fault(f"recipe: a/b\n{name}: {value}\n")
    assert f"d.yml:2: {name}: this is a mapping of" in message
    assert not re.search("instance|dictionary|object", message)


@pytest.mark.parametrize(
    ("written", "near"),
    [
        ("router: {policy: cache_awar}", "cache_aware"),
        ("router: {policy: roundrobin}", "round_robin"),
        ("load_balancing: hybird", "hybrid"),
        ("pools: {prefill: {nodes: 1, parallelism: depp}}", "dep"),
    ],
)
def test_a_wrong_choice_is_answered_with_the_nearest_one(written: str, near: str) -> None:
    assert f"did you mean {near!r}?" in fault(f"recipe: a/b\n{written}\n")


@pytest.mark.parametrize("name", ["a..b", "a.", "a.b..c", "--compilation-config..mode", "a.b."])
def test_an_empty_part_in_the_name_of_an_argument_is_refused(name: str) -> None:
    assert f"{name!r} is not the name of an argument" in fault(
        f"recipe: a/b\nargs: {{{name}: 1}}\n"
    )
    fine = "recipe: a/b\nargs: {--compilation-config.mode: 2, a_b.c_d.e: 1, tp: 1}\n"
    assert parse_document(fine, "d.yml").validate(Deployment).args
