"""`orc logs`: what the ranks say, merged by time; of dead containers too."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.grouped import grouped
from orchestrator.cli.options import (
    DeploymentArgument,
    JsonOption,
    VerboseOption,
)
from orchestrator.cli.session import Reach, not_there, session, where_known
from orchestrator.errors import DeploymentError, ExitStatus, OrcError

if TYPE_CHECKING:
    from orchestrator.health.observation import Observation
    from orchestrator.runtime.containers import ContainerState
    from orchestrator.runtime.log_lines import LogLine
    from orchestrator.secret import Secret
    from orchestrator.transport.connection import Connection
    from orchestrator.transport.pool import ConnectionPool

_COLOURS = ("36", "33", "32", "35", "34", "31")


@dataclass(frozen=True, slots=True)
class LogsReach(Reach):
    """As everywhere, but -f is --follow."""

    forks: Annotated[int, typer.Option("--forks", min=1, help="Hosts at once.")] = 32


@grouped
def logs(
    reach: LogsReach,
    name: DeploymentArgument = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on as lines come, until Ctrl-C.")
    ] = False,
    rank: Annotated[int | None, typer.Option("--rank", help="Only this rank.")] = None,
    replica: Annotated[int | None, typer.Option("--replica", help="Only this replica.")] = None,
    tail: Annotated[
        int, typer.Option("--tail", "-n", min=0, help="Lines of each rank to begin with.")
    ] = 100,
    since: Annotated[
        str | None, typer.Option("--since", help="A time, or an age such as 10m.")
    ] = None,
    timestamps: Annotated[
        bool, typer.Option("--timestamps", "-t", help="Show the time of each line.")
    ] = False,
    as_json: JsonOption = False,
    verbose: VerboseOption = 0,  # noqa: ARG001 - read in cli.main
) -> int:
    """Show the logs of a deployment's ranks, merged by time, each line after its rank's name."""
    from orchestrator.health.observation import observe

    with session(reach) as opened:
        seen = observe(opened.pool, opened.inventory.hosts)
        for host, why in seen.unknown.items():
            sys.stderr.write(f"{host}: unknown: {why}\n")
        states = [
            state
            for state in seen.containers(name)
            if rank in (None, state.rank) and replica in (None, state.replica)
        ]
        if not states:
            text = not_there(seen, name) if name else "nothing is deployed"
            if seen.containers(name):
                text = "no rank that runs is the one asked for"
            sys.stderr.write(text + where_known(seen) + "\n")
            named = name is not None or rank is not None or replica is not None
            nothing = ExitStatus.FAILED if named else ExitStatus.OK
            return int(_unknown_status(seen) or nothing)
        printer = Printer(states, timestamps=timestamps, as_json=as_json)
        if follow:
            _follow(opened.pool, states, printer, tail, since)
        else:
            _print_once(opened.pool, states, printer, tail, since)
        return int(_unknown_status(seen))


def _unknown_status(seen: Observation) -> ExitStatus:
    """The status of `orc status` for hosts whose containers are not known."""
    if seen.broken:
        return ExitStatus.FAILED
    return ExitStatus.UNREACHABLE if seen.unreachable else ExitStatus.OK


class Printer:
    """Writes log lines after the name of their rank, in colour on a terminal."""

    def __init__(
        self,
        states: Sequence[ContainerState],
        *,
        timestamps: bool,
        as_json: bool,
        secrets: Sequence[Secret] = (),
    ) -> None:
        from orchestrator.events.console import use_colour
        from orchestrator.health.targets import own_key

        several = len({state.deployment for state in states}) > 1
        self._labels = {s.id: _label(s, several) for s in states}
        self._states = {s.id: s for s in states}
        self._width = max(map(len, self._labels.values()), default=0)
        self._colours = {s.id: _COLOURS[i % len(_COLOURS)] for i, s in enumerate(states)}
        self._colour = use_colour(sys.stdout) and not as_json
        self._timestamps = timestamps
        self._as_json = as_json
        key = own_key()
        self._secrets = [*secrets, *([key] if key else [])]
        self._lock = threading.Lock()

    def __call__(self, line: LogLine) -> None:
        text = self._json(line) if self._as_json else self._text(line)
        with self._lock:
            sys.stdout.write(text + "\n")
            sys.stdout.flush()

    def _text(self, line: LogLine) -> str:
        from orchestrator.secret import redact

        label = f"{self._labels[line.source]:<{self._width}} |"
        if self._colour:
            label = f"\x1b[{self._colours[line.source]}m{label}\x1b[0m"
        time = f" {line.time}" if self._timestamps else ""
        return f"{label}{time} {redact(line.text, self._secrets)}"

    def _json(self, line: LogLine) -> str:
        from orchestrator.secret import redact

        state = self._states[line.source]
        return json.dumps(
            {
                "time": line.time,
                "deployment": state.deployment,
                "host": state.host,
                "replica": state.replica,
                "rank": state.rank,
                "text": redact(line.text, self._secrets),
            }
        )


def _label(state: ContainerState, several: bool) -> str:
    name = f"{state.deployment} " if several else ""
    return f"{name}{state.host} r{state.replica} n{state.rank}"


def _print_once(
    pool: ConnectionPool,
    states: Sequence[ContainerState],
    printer: Printer,
    tail: int,
    since: str | None,
) -> None:
    from orchestrator.runtime.docker_commands import logs_command
    from orchestrator.runtime.log_lines import merged

    def fetch(connection: Connection) -> dict[str, list[str]]:
        found = {}
        for state in states:
            if state.host == connection.host:
                result = connection.run(logs_command(state.id, tail=tail, since=since))
                if not result.ok:
                    raise DeploymentError(result.stderr.strip(), where=state.host)
                found[state.id] = [*result.stdout.splitlines(), *result.stderr.splitlines()]
        return found

    everything: dict[str, list[str]] = {}
    for answer in pool.map(dict.fromkeys(state.host for state in states), fetch).values():
        if isinstance(answer, OrcError):
            sys.stderr.write(f"{answer}\n")
        else:
            everything |= answer
    for line in merged(everything):
        printer(line)


def _follow(
    pool: ConnectionPool,
    states: Sequence[ContainerState],
    printer: Printer,
    tail: int,
    since: str | None,
) -> None:
    """Print lines as they come, until every container has ended or Ctrl-C."""
    from orchestrator.runtime.docker_commands import logs_command
    from orchestrator.runtime.log_lines import parse_log_line

    def follow(state: ContainerState) -> None:
        command = logs_command(state.id, tail=tail, since=since, follow=True)
        connection = pool.connection(state.host)
        try:
            connection.stream(command, lambda _, text: printer(parse_log_line(state.id, text)))
        except OrcError as error:
            sys.stderr.write(f"{error}\n")
        except KeyboardInterrupt:
            pass  # the pool was interrupted: the main thread says so

    threads = [threading.Thread(target=follow, args=(s,), daemon=True) for s in states]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except KeyboardInterrupt:
        pool.interrupt(lambda: any(thread.is_alive() for thread in threads))
        raise
