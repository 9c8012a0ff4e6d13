"""`orc watch` beside a test, and what it said."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from orchestrator.events.schema import check_event
from tests.e2e.conftest import Orc
from tests.fleet import Fleet

QUICK = (
    *("--interval", "1s", "--canary-interval", "2s", "--canary-timeout", "20s"),
    *("--pause", "1s"),
)
Event = dict[str, Any]


class Watching:
    """A run of `orc watch --json`. Marks tell what was said since."""

    def __init__(self, orc: Orc, process: subprocess.Popen[str]) -> None:
        self.orc = orc
        self.process = process
        self.marked = 0

    def events(self) -> list[Event]:
        events = [json.loads(line) for line in self._lines()[self.marked :] if line[:1] == "{"]
        for event in events:
            check_event(event)
        return events

    def mark(self) -> None:
        """What was said until now is not looked at any more."""
        self.marked = len(self._lines())

    def _lines(self) -> list[str]:
        """Those that are written to their end."""
        return self.orc.output().split("\n")[:-1]

    def said(self, text: str) -> list[Event]:
        return [event for event in self.events() if text in event.get("message", "")]

    def wait_for(self, text: str, seconds: float = 90, *, count: int = 1) -> Event:
        deadline = time.monotonic() + seconds
        while len(found := self.said(text)) < count:
            assert time.monotonic() < deadline, f"no {text!r} in:\n{self.orc.output()}"
            assert self.process.poll() is None, self.orc.output()
            time.sleep(0.1)
        return found[-1]

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(60)


@contextmanager
def watching(orc: Orc, directory: Path, *words: str) -> Iterator[Watching]:
    """Watch until the end of the block, in a directory of its own."""
    own = Orc(orc.fleet, directory, orc.variables)
    process = own.start("watch", *words, "--json")
    try:
        yield Watching(own, process)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(60)
        lines = own.output().splitlines()  # vLLM's own tracebacks stand inside of events
        assert not any(line.startswith("Traceback") for line in lines), own.output()


def started(fleet: Fleet) -> dict[str, str]:
    """When each container was started, by its name."""
    moments = {}
    for host in fleet.hosts:
        for name in (container.name for container in fleet.containers(host)):
            moments[name] = host.docker("inspect", "-f", "{{.State.StartedAt}}", name)
    return moments


def listening(fleet: Fleet) -> set[int]:
    """The TCP ports of vLLM that anything holds on any host."""
    ports = set()
    for host in fleet.hosts:
        for line in host.run(["ss", "-ltnH"]).stdout.splitlines():
            ports.add(int(line.split()[3].rpartition(":")[2]))
    return {port for port in ports if port in (8000, 8001, 29501, 29502, 30000)}


def until(true: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.2)
