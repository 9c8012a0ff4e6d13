"""What a person and what a program see of events."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
from typing import Any

import pytest

from orchestrator.events.console import LiveConsole, PlainConsole, event_lines, rendering
from orchestrator.events.event import Event
from orchestrator.events.json_lines import JsonLines
from orchestrator.events.nodes_filter import NodesFilter


def nodes(state: str = "running", line: str = "", replica: str = "waiting") -> dict[str, Any]:
    return {
        "seconds": 12.0,
        "timeout": 2700.0,
        "replicas": [
            {"replica": 0, "state": replica, "detail": "nothing answers yet", "last_line": line}
        ],
        "nodes": [
            {
                **{"replica": 0, "rank": 0, "name": "orc-kimi-r0-n0", "host": "node01"},
                **{"state": state, "up_seconds": 12},
            },
        ],
    }


DIFF = {
    "deployment": "kimi",
    "nodes": [
        {
            **{"host": "node01", "name": "orc-kimi-r0-n0", "replica": 0, "rank": 0},
            **{"by_hand": True, "notes": []},
            "differences": [{"field": "image", "planned": "b", "running": "a"}],
        }
    ],
    "unreachable": {},
    "broken": {},
    "exit_status": 2,
}

EVERY_KIND = [
    Event("play", "Launch"),
    Event("task", "Pull the image", task="pull_image"),
    Event("ok", "here", host="node01"),
    Event("changed", "started", host="node01", replica=0, rank=0),
    Event("skipped", "", host="node01"),
    Event("failed", "port 8000 is held\n  do:  stop it", host="node01"),
    Event("unreachable", "no route", host="node02"),
    Event("progress", "3 of 12 layers", host="node01"),
    Event("nodes", data=nodes()),
    Event("note", "replica 0 starts"),
    Event("warning", "drivers differ"),
    Event("diff", "node01  orc-kimi-r0-n0\n  image: a -> b", data=DIFF),
    Event("recap", data={"node01": {"ok": 1, "failed": 1}}),
    Event("done", "kimi is healthy", data={"exit_status": 0, "deployment": "kimi"}),
]


def test_plain_text_reads_like_ansible() -> None:
    stream = io.StringIO()
    console = PlainConsole(stream)
    for event in EVERY_KIND:
        console(event)
    text = stream.getvalue()
    assert "PLAY [Launch]\n" in text
    assert "TASK [Pull the image]\n" in text
    assert "failed: [node01] port 8000 is held\n    do:  stop it\n" in text
    assert "unreachable: [node02] no route\n" in text
    assert "  [node01] 3 of 12 layers\n" in text
    assert "  replica 0 rank 0 on node01: running\n" in text
    assert (
        "node01                   : ok=1   changed=0   unreachable=0   failed=1   skipped=0" in text
    )
    assert text.endswith("\nkimi is healthy\n")
    assert "\x1b" not in text


def test_every_kind_of_event_is_shown_by_both_renderings() -> None:
    stream = io.StringIO()
    lines = JsonLines(stream)
    for event in EVERY_KIND:
        lines(event)
        if event.kind != "nodes":
            assert event_lines(event), event.kind
    documents = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [document["kind"] for document in documents] == [event.kind for event in EVERY_KIND]
    assert documents[3]["host"] == "node01" and documents[3]["rank"] == 0
    assert documents[-1]["data"]["exit_status"] == 0


def test_a_recap_of_no_host_is_not_shown() -> None:
    assert event_lines(Event("recap", data={})) == []


def test_what_an_event_does_not_say_is_not_in_its_json() -> None:
    stream = io.StringIO()
    JsonLines(stream)(Event("note", "x", time=5.0))
    assert json.loads(stream.getvalue()) == {"time": 5.0, "kind": "note", "message": "x"}


def test_waiting_is_told_on_a_change_and_every_30_seconds() -> None:
    now = [0.0]
    news = NodesFilter(lambda: now[0])
    assert news.news(nodes()) == ["replica 0 rank 0 on node01: running", "replica 0: waiting"]
    for now[0] in (1.0, 15.0, 29.0):
        assert news.news(nodes(line=f"Loading {now[0]}")) == []
    now[0] = 30.0
    (beat,) = news.news(nodes(line="Loading shard 3/8"))
    assert beat == "replica 0: waiting for 12 s: nothing answers yet | Loading shard 3/8"
    now[0] = 31.0
    assert news.news(nodes(state="exited 1")) == ["replica 0 rank 0 on node01: exited 1"]
    now[0] = 60.0
    assert news.news(nodes(state="exited 1")) == []


def test_the_first_ranks_of_both_pools_are_told() -> None:
    data = nodes()
    (prefill,) = data["nodes"]
    data["nodes"] = [prefill, {**prefill, "name": "orc-kimi-r0-n0-decode", "host": "node02"}]
    assert NodesFilter().news(data)[:2] == [
        "replica 0 rank 0 on node01: running",
        "replica 0 rank 0 on node02: running",
    ]


def test_json_lines_have_waiting_only_when_something_changed() -> None:
    stream = io.StringIO()
    lines = JsonLines(stream)
    for state in ("created", "running", "running", "running"):
        lines(Event("nodes", data=nodes(state)))
    assert len(stream.getvalue().splitlines()) == 2


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("variables", "live"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_colour_and_redrawing_are_for_terminals_that_want_them(
    variables: dict[str, str], live: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    shown = rendering(as_json=False, stdout=Terminal())
    assert isinstance(shown, LiveConsole) is live
    assert not isinstance(rendering(as_json=False, stdout=io.StringIO()), LiveConsole)
    assert isinstance(rendering(as_json=True, stdout=Terminal()), JsonLines)


def read_all(terminal: int) -> str:
    """Everything that was written to a terminal whose other end is closed."""
    pieces = []
    with contextlib.suppress(OSError):  # EIO is the end
        while piece := os.read(terminal, 1 << 16):
            pieces.append(piece)
    os.close(terminal)
    return b"".join(pieces).decode()


def test_on_a_terminal_the_nodes_are_a_table_that_is_redrawn() -> None:
    parent, child = pty.openpty()
    with os.fdopen(child, "w") as stream:
        console = LiveConsole(stream)
        console(Event("task", "Wait"))
        for state in ("created", "running"):
            console(Event("nodes", data=nodes(state, line="Loading shard 3/8")))
        console(Event("failed", "boom", host="node01"))
        console(Event("done", "the end"))
        console.close()
    shown = read_all(parent)
    assert "Loading shard 3/8" in shown and "running" in shown
    assert "\x1b[31m" in shown and "boom" in shown
    assert shown.rstrip().endswith("the end")
