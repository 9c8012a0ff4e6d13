"""Lines of the history: merged by change, the newest last, whatever order they come in."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from orchestrator.health.observation import run_script
from orchestrator.inventory.host import ConnectionSettings, Host, HostSettings
from orchestrator.play import history
from orchestrator.play.history import (
    Change,
    SpecChange,
    group_spec,
    group_specs,
    parse_history,
    start_seconds,
)
from orchestrator.runtime.container import FILES_DIRECTORY
from orchestrator.runtime.containers import ContainerState
from orchestrator.runtime.history_scripts import append_history_script, read_history_script
from orchestrator.runtime.scripts import Script
from orchestrator.transport.pool import ConnectionPool


def change(number: int, **fields: object) -> Change:
    return Change(id=f"id{number}", deployment="kimi", begun=float(number), **fields)  # type: ignore[arg-type]


def line(one: Change) -> str:
    return json.dumps(one.to_dict())


def test_a_change_is_its_end_where_there_is_one_however_often_it_was_written() -> None:
    begun = change(1, groups={0: SpecChange(None, "abc")})
    ended = change(1, groups={0: SpecChange(None, "abc")}, ended=3.0, result="done", exit_status=0)
    for lines in ([begun, ended, begun], [ended, begun, begun, ended]):
        assert parse_history(map(line, lines)) == [ended]


def test_a_second_begin_adds_its_groups() -> None:
    first = change(1, groups={0: SpecChange("a", "b")})
    second = change(1, groups={0: SpecChange("a", "b"), 1: SpecChange("c", "d")})
    assert parse_history(map(line, [first, second])) == [second]
    assert parse_history(map(line, [second, first])) == [second]


def test_the_newest_is_last_and_what_is_no_line_of_ours_is_passed_over() -> None:
    lines = [line(change(2)), "cut off {", "", "[]", '{"id": 1}', line(change(1))]
    assert [one.id for one in parse_history(lines)] == ["id1", "id2"]


def written(one: Change, at: float) -> str:
    return line(one)[:-1] + f', "written": "{at}"}}'


def test_what_came_first_is_said_by_the_hosts_clock_not_by_that_of_who_made_it() -> None:
    ahead = change(7000, groups={0: SpecChange("a", "b")})  # an hour and more
    behind = change(10)
    lines = [written(ahead, 3000.5), written(behind, 3010.0)]
    for order in (lines, lines[::-1]):
        found = parse_history(order, ahead=100.0)
        assert [one.id for one in found] == ["id7000", "id10"]
        assert [one.moment for one in found] == [3100.5, 3110.0]
    ended = change(7000, ended=7020.0, result="failed")
    assert parse_history([written(ended, 3020.5)])[0].moment == 3000.5, "its begin is cut off"
    both = parse_history([written(ended, 3021.0), written(ahead, 3000.5), line(ahead)])
    assert [(one.moment, one.result) for one in both] == [(3000.5, "failed")]
    assert parse_history([written(ahead, 3000.5), line(ended)])[0].moment == 3000.5, "of his own"


def test_a_history_is_read_by_the_clock_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    def at_home(script: Script) -> Script:
        return Script(script.text.replace(FILES_DIRECTORY, str(tmp_path / "orc")), script.arguments)

    monkeypatch.setattr(
        history, "read_history_script", lambda name: at_home(read_history_script(name))
    )
    host = Host("here", ConnectionSettings(kind="local"), HostSettings())
    with ConnectionPool([host]) as pool:
        for one in (change(9_000_000_000, hosts=["here"]), change(2, hosts=["here"])):
            script = at_home(append_history_script("kimi", line(one)))
            assert run_script(pool.connection("here"), script).ok
        found, silent = history.read_history(pool, ["here"], "kimi")
    assert silent == {} and [one.begun for one in found] == [9e9, 2.0]
    assert all(abs(one.moment - time.time()) < 600 for one in found), "not 253 years ahead"


def rank(number: int, spec: str, suffix: str = "") -> ContainerState:
    labels = {"orc.deployment": "kimi", "orc.rank": str(number), "orc.nodes": "2", "orc.spec": spec}
    name = f"orc-kimi-r0-n{number}"
    return ContainerState(f"node{number}", f"{name}{spec}", f"{name}{suffix}", "exited", labels)


OLD, NEW = (group_spec([rank(0, spec), rank(1, spec)]) for spec in ("old", "new"))


@pytest.mark.parametrize(
    ("present", "aside", "specs"),
    [
        pytest.param(["old", "old"], [], (OLD, None), id="no roll"),
        pytest.param(["new", "new"], ["old-before", "old-before"], (NEW, OLD), id="rolled"),
        pytest.param(["", "old"], ["old-before", ""], (OLD, OLD), id="half put aside"),
        pytest.param(["", ""], ["old-before", "old-before"], (OLD, OLD), id="put aside"),
        pytest.param(["new", ""], ["old-before", "old-before"], (OLD, OLD), id="half started"),
        pytest.param(["old", "new"], ["new-after", "old-before"], (NEW, OLD), id="half gone back"),
        pytest.param(["old", "old"], ["new-after", "new-after"], (NEW, OLD), id="not started yet"),
    ],
)
def test_a_spec_is_that_of_containers_that_belong_together(
    present: list[str], aside: list[str], specs: tuple[str | None, str | None]
) -> None:
    there = [rank(n, spec) for n, spec in enumerate(present) if spec]
    kept = [rank(n, *split(one)) for n, one in enumerate(aside) if one]
    assert group_specs(there, kept) == specs


def split(one: str) -> tuple[str, str]:
    spec, _, suffix = one.partition("-")
    return spec, f"-{suffix}"


def test_how_long_a_group_takes_is_what_its_last_start_took() -> None:
    changes = [
        change(1, healthy_seconds={0: 40.0, 1: 41.0}),
        change(2, healthy_seconds={1: 50.0}),
        change(3, result="failed"),
    ]
    assert start_seconds(changes) == {0: 40.0, 1: 50.0}
    assert start_seconds([]) == {}


def test_the_users_own_history_is_his_alone_and_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(history, "_MOST_BYTES", 1000)
    for number in range(100):
        history.append_to_own(f"line {number:04}")
    path = history.own_history()
    assert path == tmp_path / "state" / "orc" / "history.jsonl"
    assert oct(path.stat().st_mode & 0o777) == "0o600"
    lines = path.read_text().splitlines()
    assert path.stat().st_size < 1100
    assert lines == [f"line {number:04}" for number in range(100 - len(lines), 100)]
