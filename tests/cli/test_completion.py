"""What the shell completes, as the shell asks for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def completed(line: str, **variables: str) -> list[str]:
    """What bash offers for the last word of `line`."""
    words = line.split(" ")
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator"],
        cwd=ROOT,
        env={
            **os.environ,
            "_ORC_COMPLETE": "complete_bash",
            "_TYPER_COMPLETE_WORD_TO_COMPLETE": words[-1],
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words) - 1),
            **variables,
        },
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.fixture
def rack(tmp_path: Path) -> str:
    path = tmp_path / "rack.yml"
    path.write_text(
        "all: {children: {rack1: {hosts: {node01: , node02: }}, ring: {hosts: {n3: }}}}"
    )
    return str(path)


def test_hosts_and_groups_of_the_inventory_are_completed(rack: str) -> None:
    assert completed(f"orc status -i {rack} --limit n") == ["n3", "node01", "node02"]
    assert completed("orc status --limit r", ORC_INVENTORY=rack) == ["rack1", "ring"]
    assert completed(f"orc inventory -i {rack} --host node") == ["node01", "node02"]


def test_the_last_part_of_a_pattern_is_completed(rack: str) -> None:
    assert completed(f"orc status -i {rack} --limit rack1:!node0") == [
        "rack1:!node01",
        "rack1:!node02",
    ]


def test_deployments_that_are_written_down_here_are_completed(tmp_path: Path) -> None:
    (tmp_path / "orc" / "bench" / "kiwi").mkdir(parents=True)
    lines = [json.dumps({"event": "begin", "deployment": name}) for name in ("kimi", "llama")]
    (tmp_path / "orc" / "history.jsonl").write_text("\n".join([*lines, "no json", "[]"]))
    state = {"XDG_STATE_HOME": str(tmp_path)}
    for command in ("status", "logs", "probe", "down"):
        assert completed(f"orc {command} ki", **state) == ["kimi", "kiwi"]


def test_what_cannot_be_read_completes_to_nothing(tmp_path: Path) -> None:
    assert completed(f"orc status -i {tmp_path}/absent.yml --limit n") == []
    assert completed("orc status ki", XDG_STATE_HOME=str(tmp_path / "absent")) == []
