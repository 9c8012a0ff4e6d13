"""Events as text for a person: lines as Ansible's, and a live table of nodes on a terminal."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TextIO

from orchestrator.events.event import Event
from orchestrator.events.json_lines import JsonLines
from orchestrator.events.nodes_filter import NodesFilter
from orchestrator.events.rendering import Rendering

if TYPE_CHECKING:
    from rich.live import Live

_COLOURS = {
    "ok": "32",
    "changed": "33",
    "skipped": "36",
    "failed": "31",
    "unreachable": "31",
    "warning": "35",
}


def rendering(*, as_json: bool, stdout: TextIO) -> Rendering:
    """How events are shown: JSON lines on stdout, or text on stdout, live on a terminal."""
    if as_json:
        return JsonLines(stdout)
    return (LiveConsole if use_colour(stdout) else PlainConsole)(stdout)


def use_colour(stream: TextIO) -> bool:
    """Colours and redrawing: on a terminal that can, unless NO_COLOR is set (no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class PlainConsole:
    """One line (or more) for each event, nothing redrawn, no colour."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._filter = NodesFilter()

    def __call__(self, event: Event) -> None:
        if event.kind == "nodes":
            self._nodes(event.data)
            return
        for line in event_lines(event):
            self._write(line, event.kind)

    def close(self) -> None:
        """Nothing is held back."""

    def _nodes(self, data: Mapping[str, Any]) -> None:
        for line in self._filter.news(data):
            self._write(f"  {line}", "progress")

    def _write(self, line: str, kind: str) -> None:  # noqa: ARG002 - colours need it
        self._stream.write(line + "\n")
        self._stream.flush()


class LiveConsole(PlainConsole):
    """The same in colour, with a table of the nodes that is redrawn while one waits."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._live: Live | None = None

    def __call__(self, event: Event) -> None:
        if event.kind in ("task", "recap", "done"):
            self.close()
        super().__call__(event)

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _nodes(self, data: Mapping[str, Any]) -> None:
        from rich.console import Console
        from rich.live import Live

        from orchestrator.events.nodes_table import nodes_table

        if self._live is None:
            self._live = Live(
                console=Console(file=self._stream), refresh_per_second=4, transient=False
            )
            self._live.start()
        self._live.update(nodes_table(data))

    def _write(self, line: str, kind: str) -> None:
        code = _COLOURS.get(kind)
        text = f"\x1b[{code}m{line}\x1b[0m" if code else line
        if self._live is not None:
            from rich.text import Text

            self._live.console.print(Text.from_ansi(text))
        else:
            super()._write(text, kind)


def event_lines(event: Event) -> list[str]:
    """An event as lines of text, without colour."""
    if event.kind == "play":
        return ["", f"PLAY [{event.message}]"]
    if event.kind == "task":
        return ["", f"TASK [{event.message}]"]
    if event.kind in (*_RESULTS, "note", "warning"):
        place = f": [{event.host}]" if event.host else ":"
        return _indented(f"{event.kind}{place}", event.message.removeprefix(f"{event.host}: "))
    if event.kind == "progress":
        place = f"  [{event.host}]" if event.host else " "
        return [f"{place} {event.message}"]
    if event.kind == "recap":
        if not event.data:  # it ended before anything was done on a host
            return []
        return ["", "RECAP", *(_recap_line(host, counts) for host, counts in event.data.items())]
    if event.kind in ("done", "diff"):
        return ["", *event.message.splitlines()]
    return []


def _indented(head: str, message: str) -> list[str]:
    first, *rest = message.splitlines() or [""]
    return [f"{head} {first}".rstrip(), *(f"  {line}" for line in rest)]


def _recap_line(host: str, counts: Mapping[str, int]) -> str:
    shown = " ".join(f"{name}={counts.get(name, 0):<3}" for name in RECAP_NAMES)
    return f"{host:<24} : {shown}".rstrip()


_RESULTS = ("ok", "changed", "skipped", "failed", "unreachable")
RECAP_NAMES = ("ok", "changed", "unreachable", "failed", "skipped", "rescued", "ignored")
