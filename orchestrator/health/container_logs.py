"""The logs of many containers: fetched once and merged, or followed as lines come."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from orchestrator.errors import DeploymentError, OrcError, UnreachableError
from orchestrator.health.observation import Observation, observe_host, run_script
from orchestrator.runtime.containers import ContainerState, HostObservation
from orchestrator.runtime.docker_commands import logs_command
from orchestrator.runtime.follow_script import FollowedLog, NumberedLines, follow_script
from orchestrator.runtime.log_lines import LogLine, in_order, merged, parse_log_line
from orchestrator.runtime.scripts import matching_logs_script
from orchestrator.transport.connection import Connection
from orchestrator.transport.pool import ConnectionPool

LOOK_INTERVAL = 2.0  # seconds between two looks for containers that have come or come back
_MAY_SPEAK = ("running", "paused", "restarting")
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
    """A container that is followed, and how far its log was read."""

    state: ContainerState
    wanted: LogsWanted
    last: str = ""  # the time of the last line that was read
    ended: bool = False  # and that was said

    def log(self) -> FollowedLog:
        """From where it is followed: once a line was read, from there."""
        if self.last:
            return FollowedLog(self.state.id, since=self.last)
        tail = None if self.wanted.pattern else self.wanted.tail
        return FollowedLog(self.state.id, tail, self.wanted.since)


@dataclass
class Follower:
    """Follows the logs of the containers that `select` takes, also of those that come later, and
    of one that is started again; `say` hears of containers that ended and of hosts that are lost.

    One command at a time on each host, whatever runs there: sshd may allow no more.
    """

    pool: ConnectionPool
    hosts: Sequence[str]
    select: Select
    wanted: LogsWanted
    on_line: Callable[[ContainerState, LogLine], None]
    say: Callable[[str], None]
    _seen: dict[str, HostObservation] = field(default_factory=dict)
    _followed: dict[tuple[str, str], _Followed] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self, seen: Observation) -> NoReturn:
        """Follow until Ctrl-C, which ends what runs on the hosts and is passed on."""
        self._seen = {host.host: host for host in seen.hosts}
        for state in self.select(seen):
            self._followed[state.host, state.id] = _Followed(state, self.wanted)
        # Daemons: a host that does not answer must not keep the process from ending.
        threads = [
            threading.Thread(target=self._attend, args=(host, host in seen.unknown), daemon=True)
            for host in self.hosts
        ]
        try:
            for thread in threads:
                thread.start()
            while True:
                time.sleep(LOOK_INTERVAL)
        except KeyboardInterrupt:
            self._stop.set()
            self.pool.interrupt(lambda: any(thread.is_alive() for thread in threads))
            raise

    def _attend(self, host: str, lost: bool) -> None:
        """Follow what is on a host, look at what has changed there, and so on."""
        while not self._stop.is_set():
            try:
                if not lost:
                    # A connection that breaks meanwhile is made anew by the look, or that says why.
                    with contextlib.suppress(UnreachableError):
                        self._follow(host)
                self._look(host)
                if lost:
                    self.say(f"{host} answers again")
                lost = False
            except OrcError as error:
                if not lost:
                    why = f": {error.why}" if error.why else ""
                    self.say(f"{host}: unknown: {error.what}{why}; it is looked at again and again")
                lost = True
                self._stop.wait(LOOK_INTERVAL)
            except KeyboardInterrupt:
                return  # the pool was interrupted: the main thread says so

    def _look(self, host: str) -> None:
        """Raises OrcError where the host, or its docker, does not answer."""
        seen = observe_host(self.pool.connection(host))
        if seen.error:
            raise DeploymentError(seen.error, where=host)
        self._seen[host] = seen

    def _follow(self, host: str) -> None:
        """Until something changes on the host. Raises OrcError."""
        connection = self.pool.connection(host)
        live = []
        for one in self._of(host):
            if one.state.status in _MAY_SPEAK:
                one.ended = False
                live.append(one)
            elif not one.ended:
                one.ended = True
                self._read_rest(connection, one)
                self.say(f"{host}: {one.state.name} has ended: {one.state.ending()}")
        takes = [self._take(one) for one in live]
        lines = NumberedLines()

        def sink(_: str, text: str) -> None:
            for number, line in lines.feed(text):
                one = live[number]
                takes[number](parse_log_line(one.state.id, line, one.last))

        seen = self._seen[host].containers
        script = follow_script([one.log() for one in live], seen, seconds=LOOK_INTERVAL)
        words = ["sh", "-s", "--", *script.arguments]
        connection.stream(words, sink, stdin=script.text)

    def _of(self, host: str) -> list[_Followed]:
        """What is to be followed on a host now. What comes later is shown from its beginning."""
        seen = Observation(tuple(dict(self._seen).values()))
        found = []
        for state in self.select(seen):
            if state.host == host:
                later = _Followed(state, LogsWanted(pattern=self.wanted.pattern))
                one = self._followed.setdefault((host, state.id), later)
                one.state = state
                found.append(one)
        return found

    def _read_rest(self, connection: Connection, one: _Followed) -> None:
        log, take = one.log(), self._take(one)
        result = connection.run(logs_command(log.container, tail=log.tail, since=log.since))
        if result.ok:  # else it was removed meanwhile
            said = [*result.stdout.splitlines(), *result.stderr.splitlines()]
            for line in in_order(one.state.id, said):
                take(line)

    def _take(self, one: _Followed) -> Callable[[LogLine], None]:
        before = one.last

        def take(line: LogLine) -> None:
            if before and line.time <= before:  # `--since` gives the last one again
                return
            one.last = max(one.last, line.time)
            if one.wanted.takes(line):
                self.on_line(one.state, line)

        return take
