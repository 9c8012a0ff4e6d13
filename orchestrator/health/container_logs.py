"""The logs of many containers: fetched once and merged, or followed as lines come."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from orchestrator.errors import DeploymentError, OrcError
from orchestrator.health.observation import Observation, observe, run_script
from orchestrator.runtime.containers import ContainerState
from orchestrator.runtime.docker_commands import logs_command
from orchestrator.runtime.log_lines import LogLine, merged, parse_log_line
from orchestrator.runtime.scripts import matching_logs_script
from orchestrator.transport.connection import Connection
from orchestrator.transport.pool import ConnectionPool

LOOK_INTERVAL = 2.0  # seconds between two looks for containers that have come or come back
_NO_TEXT = re.compile(r"[\\.^$*+?{}\[\]|()\n]")  # what means more than itself in a pattern


@dataclass(frozen=True, slots=True)
class LogsWanted:
    """Which lines: the last `tail` of each container, those `since`, those with `pattern`.

    With a pattern `tail` counts the lines that match. `since` is docker's own: an age or a time.
    """

    tail: int | None = None
    since: str | None = None
    pattern: re.Pattern[str] | None = None

    def takes(self, line: LogLine) -> bool:
        return self.pattern is None or self.pattern.search(line.text) is not None

    @property
    def literal(self) -> str | None:
        """The pattern, where it is nothing but text: then the host can choose the lines."""
        if self.pattern is None or _NO_TEXT.search(self.pattern.pattern):
            return None
        return self.pattern.pattern


def fetch_logs(
    pool: ConnectionPool, states: Sequence[ContainerState], wanted: LogsWanted
) -> tuple[list[LogLine], list[OrcError]]:
    """The lines of all containers by time, and what went wrong. A line's source is its ID."""

    def fetch(connection: Connection) -> dict[str, list[str]]:
        own = [state for state in states if state.host == connection.host]
        return {state.id: _fetch(connection, state, wanted) for state in own}

    answers = pool.map(dict.fromkeys(state.host for state in states), fetch)
    errors = [answer for answer in answers.values() if isinstance(answer, OrcError)]
    found: dict[str, list[str]] = {}
    for answer in answers.values():
        found |= {} if isinstance(answer, OrcError) else answer
    lines = [line for line in merged(found) if wanted.takes(line)]
    return (_last_of_each(lines, wanted.tail) if wanted.pattern else lines), errors


def _fetch(connection: Connection, state: ContainerState, wanted: LogsWanted) -> list[str]:
    if wanted.literal is not None:
        script = matching_logs_script(state.id, wanted.literal, since=wanted.since)
        result = run_script(connection, script)
    else:
        tail = None if wanted.pattern else wanted.tail
        result = connection.run(logs_command(state.id, tail=tail, since=wanted.since))
    if not result.ok:
        raise DeploymentError(result.stderr.strip(), where=state.host)
    return [*result.stdout.splitlines(), *result.stderr.splitlines()]


def _last_of_each(lines: Sequence[LogLine], tail: int | None) -> list[LogLine]:
    if tail is None:
        return list(lines)
    left: dict[str, int] = {}
    kept = []
    for line in reversed(lines):
        left[line.source] = left.get(line.source, tail) - 1
        if left[line.source] >= 0:
            kept.append(line)
    return kept[::-1]


Select = Callable[[Observation], Iterable[ContainerState]]


@dataclass
class _Followed:
    """A container that is followed: who reads its log, and how far it was read."""

    state: ContainerState
    thread: threading.Thread | None = None
    last: str = ""  # the time of the last line that was read
    ended: bool = False  # and that was said

    @property
    def alive(self) -> bool:
        return self.thread is not None and self.thread.is_alive()


@dataclass
class Follower:
    """Follows the logs of the containers that `select` takes, also of those that come later, and
    of one that is started again; `say` hears of containers that ended and of hosts that are lost.
    """

    pool: ConnectionPool
    hosts: Sequence[str]
    select: Select
    wanted: LogsWanted
    on_line: Callable[[ContainerState, LogLine], None]
    say: Callable[[str], None]
    _followed: dict[tuple[str, str], _Followed] = field(default_factory=dict)
    _unknown: Mapping[str, str] = field(default_factory=dict)

    def run(self, seen: Observation) -> NoReturn:
        """Follow until Ctrl-C, which ends what runs on the hosts and is passed on."""
        self._unknown = seen.unknown
        first = self.wanted
        try:
            while True:
                for state in self.select(seen):
                    self._look_after(state, first)
                # What comes later is shown from its beginning.
                first = LogsWanted(pattern=self.wanted.pattern)
                time.sleep(LOOK_INTERVAL)
                seen = observe(self.pool, self.hosts)
                self._say_unknown(seen.unknown)
        except KeyboardInterrupt:
            self.pool.interrupt(lambda: any(one.alive for one in self._followed.values()))
            raise

    def _look_after(self, state: ContainerState, wanted: LogsWanted) -> None:
        key = (state.host, state.id)
        known = self._followed.get(key)
        if known is None:
            known = self._followed[key] = _Followed(state)
            self._start(known, wanted)
            return
        known.state = state
        if known.alive:
            return
        if state.running:
            known.ended = False
            again = LogsWanted(since=known.last or None, pattern=wanted.pattern)
            self._start(known, again)
        elif not known.ended:
            known.ended = True
            self.say(f"{state.host}: {state.name} has ended: {state.ending()}")

    def _start(self, followed: _Followed, wanted: LogsWanted) -> None:
        followed.thread = threading.Thread(
            target=self._follow, args=(followed, wanted), daemon=True
        )
        followed.thread.start()

    def _follow(self, followed: _Followed, wanted: LogsWanted) -> None:
        state, before = followed.state, followed.last
        tail = None if wanted.pattern else wanted.tail

        def take(_: str, text: str) -> None:
            line = parse_log_line(state.id, text, followed.last)
            if before and line.time <= before:  # `--since` gives the last one again
                return
            followed.last = max(followed.last, line.time)
            if wanted.takes(line):
                self.on_line(state, line)

        command = logs_command(state.id, tail=tail, since=wanted.since, follow=True)
        try:
            self.pool.connection(state.host).stream(command, take)
        except OrcError as error:
            self.say(str(error))
        except KeyboardInterrupt:
            pass  # the pool was interrupted: the main thread says so

    def _say_unknown(self, unknown: Mapping[str, str]) -> None:
        for host in unknown:
            if host not in self._unknown:
                self.say(f"{host}: unknown: {unknown[host]}")
        for host in self._unknown:
            if host not in unknown:
                self.say(f"{host} answers again")
        self._unknown = unknown
