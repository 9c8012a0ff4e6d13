"""Every line that `--json` prints is one that the schema describes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from orchestrator.cli.main import run
from orchestrator.events.event import Event, Kind
from orchestrator.events.json_lines import event_dict
from orchestrator.events.schema import KINDS, check_event, event_schema
from tests.events.test_renderings import EVERY_KIND


def test_every_kind_has_its_place_in_the_schema() -> None:
    described = [
        kind for model in KINDS for kind in get_args(model.model_fields["kind"].annotation)
    ]
    assert sorted(described) == sorted(get_args(Kind))


@pytest.mark.parametrize("event", EVERY_KIND, ids=lambda event: event.kind)
def test_an_event_of_every_kind_is_described(event: Event) -> None:
    line = event_dict(event)
    check_event(json.loads(json.dumps(line)))
    with pytest.raises(ValidationError):
        check_event({**line, "more": 1})


@pytest.mark.parametrize(
    "line",
    [{}, {"time": 1.0, "kind": "new"}, {"kind": "ok"}, {"time": 1.0, "kind": "done"},
     {"time": 1.0, "kind": "nodes", "data": {"seconds": 1.0}}],
)  # fmt: skip
def test_what_is_no_event_is_refused(line: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        check_event(line)


@pytest.mark.parametrize("words", [["check"], ["down", "x"], ["up", "-r", "orc/tiny-llama"]])
def test_the_lines_of_a_run_without_docker_are_described(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inventory = tmp_path / "i.yml"
    inventory.write_text("all: {hosts: {here: {ansible_connection: local, orc_hardware: cpu}}}")
    run([*words, "-i", str(inventory), "--json"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [check_event(line).kind for line in lines][-1] == "done"


def test_the_schema_is_json_and_says_what_each_field_is() -> None:
    schema = json.loads(json.dumps(event_schema()))
    assert schema["discriminator"]["propertyName"] == "kind"
    assert schema["$defs"]["Nodes"]["properties"]["time"]["description"]


def test_the_schema_is_loaded_by_nobody_who_prints_events() -> None:
    code = (
        "import sys, orchestrator.events.json_lines, orchestrator.cli.main;"
        "sys.exit('orchestrator.events.schema' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
