"""Lines of the history: merged by change, the newest last, whatever order they come in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.play import history
from orchestrator.play.history import (
    Change,
    SpecChange,
    group_spec,
    group_specs,
    parse_history,
    start_seconds,
)
from orchestrator.runtime.containers import ContainerState


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
