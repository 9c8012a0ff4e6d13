"""`orc logs`: what the ranks say, merged by time; of dead containers too."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.grouped import grouped
from orchestrator.cli.options import (
    DeploymentArgument,
    JsonOption,
    VerboseOption,
)
from orchestrator.cli.session import Reach, known_secrets, nothing_there, session
from orchestrator.deployment import seconds
from orchestrator.errors import ExitStatus, UsageError

if TYPE_CHECKING:
    from orchestrator.health.observation import Observation
    from orchestrator.runtime.containers import ContainerState

_TAIL = 100


@dataclass(frozen=True, slots=True)
class LogsReach(Reach):
    """As everywhere, but -f is --follow."""

    forks: Annotated[int, typer.Option("--forks", min=1, help="Hosts at once.")] = 32


@dataclass(frozen=True, slots=True)
class Choice:
    """Which containers are meant."""

    name: DeploymentArgument = None
    rank: Annotated[int | None, typer.Option("--rank", help="Only this rank.")] = None
    replica: Annotated[int | None, typer.Option("--replica", help="Only this replica.")] = None

    def __call__(self, seen: Observation) -> list[ContainerState]:
        return [
            state
            for state in seen.shown(self.name)
            if self.rank in (None, state.rank) and self.replica in (None, state.replica)
        ]


@grouped
def logs(
    reach: LogsReach,
    choice: Choice,
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Go on as lines come, over restarts, until Ctrl-C."),
    ] = False,
    tail: Annotated[
        int | None,
        typer.Option(
            "--tail",
            "-n",
            min=0,
            help=f"Lines of each rank to begin with ({_TAIL}; with --grep all that match).",
        ),
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", help="A time, or an age such as 10m.")
    ] = None,
    grep: Annotated[
        str | None,
        typer.Option("--grep", metavar="REGEX", help="Only lines with this (Python's re)."),
    ] = None,
    timestamps: Annotated[
        bool, typer.Option("--timestamps", "-t", help="Show the time of each line.")
    ] = False,
    as_json: JsonOption = False,
    verbose: VerboseOption = 0,  # noqa: ARG001 - read in cli.main
) -> int:
    """Show the logs of a deployment's ranks, merged by time.

    Each line stands after its rank's name.
    """
    from orchestrator.cli.log_printer import LogPrinter
    from orchestrator.health.container_logs import Follower, LogsWanted, fetch_logs
    from orchestrator.health.observation import observe

    wanted = LogsWanted(
        tail=_TAIL if tail is None and grep is None else tail,
        since=None if since is None else moment(since),
        pattern=None if grep is None else _pattern(grep),
    )
    with session(reach) as opened:
        hosts = list(opened.inventory.hosts)
        seen = observe(opened.pool, hosts)
        for host, why in seen.explained.items():
            _say(f"{host}: unknown: {why}")
        states = choice(seen)
        if not states:
            return _nothing(seen, choice)
        printer = LogPrinter(
            states,
            timestamps=timestamps,
            as_json=as_json,
            several=len({state.deployment for state in states}) > 1,
            secrets=known_secrets(opened.inventory, hosts),
        )
        if follow:
            Follower(opened.pool, hosts, choice, wanted, printer, _say).run(seen)
        by_id = {state.id: state for state in states}
        lines, errors = fetch_logs(opened.pool, states, wanted)
        for line in lines:
            printer(by_id[line.source], line)
        for error in errors:
            _say(str(error))
        return int(_unknown_status(seen))


def moment(text: str) -> str:
    """`10m` or a time as `docker logs --since` understands it, the same on every host.

    A time without a zone is by this machine's clock. Raises UsageError.
    """
    try:
        if re.fullmatch(r"[\d.hms]*[hms]", text):
            return f"{seconds(text):.3f}s"
        return datetime.fromisoformat(text).astimezone(UTC).isoformat()
    except (ValueError, OverflowError):
        raise UsageError(
            f"--since {text!r} is neither a time nor an age",
            hint="an age is 10m or 1h30m; a time is 2026-11-30T14:05, with or without a zone",
        ) from None


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f"--grep {text!r} is no regular expression: {error}") from None


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


def _nothing(seen: Observation, choice: Choice) -> int:
    if seen.shown(choice.name):
        answered = " on the hosts that answered" if seen.unknown else ""
        _say(f"no rank that runs is the one asked for{answered}")
    else:
        _say(nothing_there(seen, choice.name))
    named = any(value is not None for value in (choice.name, choice.rank, choice.replica))
    return int(_unknown_status(seen) or (ExitStatus.FAILED if named else ExitStatus.OK))


def _unknown_status(seen: Observation) -> ExitStatus:
    """The status of `orc status` for hosts whose containers are not known."""
    if seen.broken:
        return ExitStatus.FAILED
    return ExitStatus.UNREACHABLE if seen.unreachable else ExitStatus.OK
