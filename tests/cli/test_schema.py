"""`orc schema`: what editors complete and check is what orc reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.cli.main import run
from orchestrator.packaged import packaged_directory

jsonschema = pytest.importorskip("jsonschema")

ROOT = Path(__file__).parents[2]
FILES = {
    "inventory": sorted((ROOT / "inventories").glob("*.yml")),
    "recipe": sorted((packaged_directory("recipes") / "models").rglob("*.yaml")),
    "playbook": sorted(packaged_directory("playbooks").rglob("*.yml")),
}


def validator(kind: str, capsys: pytest.CaptureFixture[str]) -> Any:
    assert run(["schema", kind]) == 0
    schema = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def faults(checker: Any, text: str) -> list[str]:
    """An editor reads a date as text, as JSON has it."""
    data = json.loads(json.dumps(yaml.safe_load(text), default=str))
    return [error.message for error in checker.iter_errors(data)]


@pytest.mark.parametrize("kind", FILES)
def test_every_file_of_ours_is_right(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    checker = validator(kind, capsys)
    assert FILES[kind]
    found = {path.name: faults(checker, path.read_text()) for path in FILES[kind]}
    assert {name: some for name, some in found.items() if some} == {}


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("inventory", "all: {vars: {orc_hardwar: h200}}"),
        ("inventory", "all: {hosts: {a: {orc_gpus: [x]}}}"),
        ("inventory", "all: {host: {a: }}"),
        ("playbook", "- tasks: [{rnu: a}]"),
        ("playbook", "- tasks: [{run: {comand: a}}]"),
        ("playbook", "- tasks: [{run: a, copy: {dest: b, content: c}}]"),
        ("playbook", "- {tasks: [], seriel: 1}"),
        ("playbook", "- tasks: [{block: [{rnu: a}]}]"),
        ("playbook", "- {tasks: [], deployment: {recipe: a, node: 2}}"),
        ("recipe", "meta: {}"),
    ],
)
def test_a_mistake_is_found(kind: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert faults(validator(kind, capsys), text)


@pytest.mark.parametrize(
    "text",
    [
        "- tasks: [{run: a b, when: x == 1}, {run: [a, 7], when: [x, true], tags: a}]",
        "- {tasks: [pause: 5m], serial: [1, 50%]}",
        "- {tasks: [{pause: {seconds: '{{ a }}'}, retries: '{{ b }}'}], serial: '{{ d }}'}",
        "- tasks: [{include_tasks: a.yml, vars: {a: 1}}, preflight: ]",
        "- tasks: [{block: [stop: ], rescue: [fail: why], always: [debug: {msg: [1]}]}]",
    ],
)
def test_what_orc_reads_is_right(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert faults(validator("playbook", capsys), text) == []
