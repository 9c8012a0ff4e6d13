"""The engine: tasks in turn, events for each host, a recap, the end at the first failure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator import Inventory
from orchestrator.errors import (
    DeploymentError,
    ErrorGroup,
    ExitStatus,
    OrcError,
    UnreachableError,
)
from orchestrator.events.event import Event
from orchestrator.play.action import Action, Arguments
from orchestrator.play.engine import Recap, run_plays
from orchestrator.play.result import HostResult, Report
from orchestrator.play.run import Run
from orchestrator.play.tasks import Play, Task
from orchestrator.transport.pool import ConnectionPool

TEXT = "all: {hosts: {node01: {ansible_connection: local}, node02: {ansible_connection: local}}}\n"
Perform = Callable[[Run, "Words", Report], None]


class Words(Arguments):
    word: str = ""
    number: int = 0
    flag: bool = False


def play(*performs: Perform, hosts: str = "all", **arguments: object) -> Play:
    tasks = [
        Task(f"task {i}", Action("say", Words, perform), arguments, f"play.yml:{i}")
        for i, perform in enumerate(performs)
    ]
    return Play("a play", hosts, tuple(tasks), variables={"greeting": "hello", "yes": True})


def run_play(tmp_path: Path, *plays: Play, **fields: object) -> tuple[Recap, list[Event], Run]:
    path = tmp_path / "inventory.yml"
    path.write_text(TEXT)
    inventory = Inventory.load(path)
    events: list[Event] = []
    with ConnectionPool(inventory.hosts.values()) as pool:
        run = Run(inventory, pool, events.append, **fields)  # type: ignore[arg-type]
        recap = run_plays(plays, run)
    return recap, events, run


def everywhere(status: str, message: str = "") -> Perform:
    def perform(run: Run, arguments: Words, report: Report) -> None:
        for host in run.inventory.hosts:
            report(HostResult(host, status, message))  # type: ignore[arg-type]

    return perform


def raising(error: OrcError) -> Perform:
    def perform(run: Run, arguments: Words, report: Report) -> None:
        raise error

    return perform


def kinds(events: list[Event]) -> list[str]:
    return [event.kind for event in events]


def test_every_task_is_an_event_and_every_host_too(tmp_path: Path) -> None:
    recap, events, _ = run_play(tmp_path, play(everywhere("ok"), everywhere("changed")))
    assert kinds(events) == ["play", "task", "ok", "ok", "task", "changed", "changed", "recap"]
    assert recap.hosts == {
        "node01": {"ok": 1, "changed": 1},
        "node02": {"ok": 1, "changed": 1},
    }
    assert recap.exit_status == ExitStatus.OK
    assert events[-1].data == recap.hosts


@pytest.mark.parametrize(
    ("status", "exit_status"),
    [("failed", ExitStatus.FAILED), ("unreachable", ExitStatus.UNREACHABLE)],
)
def test_a_failure_ends_the_run_before_the_next_task(
    tmp_path: Path, status: str, exit_status: ExitStatus
) -> None:
    recap, events, _ = run_play(tmp_path, play(everywhere(status), everywhere("ok")))
    assert kinds(events).count("task") == 1
    assert recap.exit_status == exit_status


@pytest.mark.parametrize(
    ("error", "kind", "exit_status"),
    [
        (DeploymentError("no"), "failed", 2),
        (UnreachableError("gone", where="node01"), "unreachable", 4),
        (ErrorGroup([DeploymentError("one"), UnreachableError("two")]), "failed", 4),
    ],
)
def test_an_error_of_an_action_is_told_and_ends_the_run(
    tmp_path: Path, error: OrcError, kind: str, exit_status: int
) -> None:
    recap, events, _ = run_play(tmp_path, play(raising(error), everywhere("ok")))
    assert kind in kinds(events)
    assert recap.exit_status == exit_status
    assert kinds(events).count("task") == 1


def test_templates_are_filled_and_keep_their_type(tmp_path: Path) -> None:
    seen: list[Words] = []

    def perform(run: Run, arguments: Words, report: Report) -> None:
        seen.append(arguments)

    written = {"word": "{{ greeting }} {{ name }}", "number": "{{ 2 + 3 }}", "flag": "{{ yes }}"}
    run_play(tmp_path, play(perform, **written), variables={"name": "you"})
    assert seen == [Words(word="hello you", number=5, flag=True)]


def test_variables_of_the_command_line_win(tmp_path: Path) -> None:
    seen: list[str] = []

    def perform(run: Run, arguments: Words, report: Report) -> None:
        seen.append(arguments.word)

    run_play(tmp_path, play(perform, word="{{ greeting }}"), variables={"greeting": "bye"})
    assert seen == ["bye"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"word": "{{ unknown }}"}, "unknown"),
        ({"number": "{{ greeting }}"}, "number"),
        ({"word": "{{ ''.__class__.__mro__ }}"}, "unsafe"),
    ],
)
def test_a_template_that_cannot_be_filled_says_where(
    tmp_path: Path, arguments: dict[str, object], said: str
) -> None:
    recap, events, _ = run_play(tmp_path, play(everywhere("ok"), **arguments))  # type: ignore[arg-type]
    assert recap.exit_status == ExitStatus.INVALID
    (failed,) = [event for event in events if event.kind == "failed"]
    assert "play.yml:0" in failed.message and said in failed.message


def test_a_play_is_for_its_hosts_only(tmp_path: Path) -> None:
    first = play(everywhere("ok"), hosts="node02")
    recap, _, _ = run_play(tmp_path, first, play(everywhere("changed")))
    assert recap.hosts == {"node02": {"ok": 1, "changed": 1}, "node01": {"changed": 1}}


def test_a_host_is_not_named_twice_in_a_message(tmp_path: Path) -> None:
    def perform(run: Run, arguments: Words, report: Report) -> None:
        report(HostResult("node01", "failed", str(DeploymentError("boom", where="node01"))))

    _, events, _ = run_play(tmp_path, play(perform))
    (failed,) = [event for event in events if event.kind == "failed"]
    assert (failed.host, failed.message) == ("node01", "boom")


def test_an_interrupt_passes_through(tmp_path: Path) -> None:
    def perform(run: Run, arguments: Words, report: Report) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_play(tmp_path, play(perform))
