"""`orc play` as a user calls it, on local hosts."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from orchestrator.cli.extra_vars import extra_variables
from orchestrator.cli.main import run
from orchestrator.errors import OrcError

INVENTORY = """
all:
  vars: {ansible_connection: local}
  children: {web: {hosts: {h1: , h2: }}, db: {hosts: {h3: }}}
"""
PLAYBOOK = """
- name: First
  hosts: "{{ where | default('web') }}"
  vars: {word: play}
  tasks:
    - {name: Say, debug: "{{ word }}", tags: say}
    - {name: Make, run: "touch {{ made }}", tags: [make, files]}
- hosts: db
  tasks:
    - {name: Last, debug: end}
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "hosts.yml").write_text(INVENTORY)
    (tmp_path / "play.yml").write_text(PLAYBOOK)
    monkeypatch.setenv("ORC_INVENTORY", str(tmp_path / "hosts.yml"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


Out = pytest.CaptureFixture[str]


def events(capsys: Out) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_playbook_is_run_and_a_recap_shown(files: Path, capsys: Out) -> None:
    assert run(["play", "play.yml", "-e", f"made={files}/made"]) == 0
    out = capsys.readouterr().out
    assert "PLAY [First]" in out and "TASK [Make]" in out and "ok: [h1] play" in out
    assert "h3                       : ok=1 " in out and out.endswith("\ndone\n")
    assert (files / "made").exists()


def test_variables_of_the_command_line_win(files: Path, capsys: Out) -> None:
    (files / "more.yml").write_text("word: file\nmade: /dev/null\n")
    words = ["play", "play.yml", "-e", "@more.yml", "-e", "word='from here' where=h2"]
    assert run([*words, "--tags", "say", "--json"]) == 0
    said = [(e["host"], e["message"]) for e in events(capsys) if e["kind"] == "ok"]
    assert said == [("h2", "from here")]


def test_limit_tags_and_start_at_task_choose(files: Path, capsys: Out) -> None:
    assert run(["play", "play.yml", "--limit", "h1:h3", "--skip-tags", "files", "--json"]) == 0
    assert [e["host"] for e in events(capsys) if e["kind"] == "ok"] == ["h1", "h3"]
    assert run(["play", "play.yml", "--limit", "h3", "--json"]) == 0
    assert [e["host"] for e in events(capsys) if e["kind"] == "ok"] == ["h3"]
    assert run(["play", "play.yml", "--start-at-task", "La*", "--json"]) == 0
    assert [e["host"] for e in events(capsys) if e["kind"] == "ok"] == ["h3"]
    assert run(["play", "play.yml", "--start-at-task", "Lost"]) == 1
    assert "there is no task 'Lost' to start at\n  do:  did you mean 'Last'?" in (
        capsys.readouterr().err
    )


def test_check_says_and_does_nothing(files: Path, capsys: Out) -> None:
    assert run(["play", "play.yml", "--check", "-e", f"made={files}/made"]) == 0
    out = capsys.readouterr().out
    assert f"skipped: [h1] would run touch {files}/made" in out
    assert out.endswith("\nnothing was done (--check)\n")
    assert not (files / "made").exists()


def test_a_failure_is_exit_status_2_and_names_the_hosts(files: Path, capsys: Out) -> None:
    assert run(["play", "play.yml", "-e", "made=/nowhere/at/all"]) == 2
    assert capsys.readouterr().out.endswith("\nfailed on h1, h2\n")


def test_tasks_and_hosts_are_listed(files: Path, capsys: Out) -> None:
    assert run(["play", "play.yml", "--list-tasks", "--list-hosts", "--tags", "say,all"]) == 0
    assert capsys.readouterr().out == (
        "playbook: play.yml\n\n"
        "  play #1 (web): First\n    hosts (2):\n      h1\n      h2\n"
        "    tasks:\n      Say\tTAGS: [say]\n      Make\tTAGS: [files, make]\n\n"
        "  play #2 (db): db\n    hosts (1):\n      h3\n    tasks:\n      Last\n"
    )
    assert run(["play", "play.yml", "--list-tasks", "--tags", "say", "--json"]) == 0
    plays = json.loads(capsys.readouterr().out)["plays"]
    assert [[task["name"] for task in play["tasks"]] for play in plays] == [["Say"], []]


def test_the_syntax_is_checked_without_a_host(files: Path, capsys: Out) -> None:
    assert run(["play", "play.yml", "--syntax-check"]) == 0
    assert not (files / "made").exists()
    (files / "play.yml").write_text("- hosts: web\n  tasks:\n    - rnu: true\n")
    capsys.readouterr()
    assert run(["play", "play.yml", "--syntax-check"]) == 1
    assert capsys.readouterr().err == (
        "error: play.yml:3: unknown action or key 'rnu'\n  do:  did you mean 'run'?\n"
    )


def test_step_needs_somebody_to_ask(files: Path, capsys: Out) -> None:
    assert run(["play", "play.yml", "--step"]) == 3
    assert "there is no terminal to ask at" in capsys.readouterr().err


def test_step_asks_before_each_task(files: Path) -> None:
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "orchestrator", "play", "play.yml", "--step"]
    root = str(Path(__file__).parents[2])
    process = subprocess.Popen(
        [*words, "-e", f"made={files}/made"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "PYTHONPATH": root, "NO_COLOR": "1"},
    )
    os.close(theirs)
    text = ""
    for question, answer in (("Say", "y"), ("Make", "n"), ("Last", "c")):
        text += _read_until(ours, f"Perform task: {question} (N)o/(y)es/(c)ontinue")
        os.write(ours, f"{answer}\n".encode())
    text += _read_until(ours, "done")
    assert process.wait(30) == 0
    os.close(ours)
    assert "TASK [Say]" in text and "TASK [Make]" not in text and "TASK [Last]" in text
    assert not (files / "made").exists()


def _read_until(terminal: int, wanted: str) -> str:
    text, deadline = "", time.monotonic() + 60
    while wanted not in text:
        assert time.monotonic() < deadline, text
        if select.select([terminal], [], [], 0.5)[0]:
            text += os.read(terminal, 4096).decode()
    return text


@pytest.mark.parametrize(
    ("given", "variables"),
    [
        (["a=1"], {"a": 1}),
        (["a=x b='y z'", "a=2"], {"a": 2, "b": "y z"}),
        (["a=two words"], {"a": "two words"}),
        (["a=[1, 2]"], {"a": [1, 2]}),
        (['{"a": {"b": true}}'], {"a": {"b": True}}),
        (["a="], {"a": None}),
        (["a=x=y"], {"a": "x=y"}),
    ],
)
def test_extra_variables_are_read_as_yaml(given: list[str], variables: object) -> None:
    assert extra_variables(given) == variables


@pytest.mark.parametrize("given", ["a", "a-b=1", "1a=2", "@", "{a: 1, b-c: 2}", "{1}"])
def test_what_is_no_variable_is_refused(given: str) -> None:
    with pytest.raises(OrcError) as caught:
        extra_variables([given])
    assert given.strip("@{}")[:3] in str(caught.value) or "-e" in str(caught.value)
