"""`orc exec`: one command on many hosts, or inside a deployment's containers."""

from __future__ import annotations

import json
import shlex
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli.completion import deployment_names, host_names
from orchestrator.cli.grouped import grouped
from orchestrator.cli.options import CheckOption, JsonOption, VerboseOption
from orchestrator.cli.session import Reach, Session, known_secrets, none_found, session
from orchestrator.errors import (
    DeploymentError,
    ExitStatus,
    OrcError,
    UnreachableError,
    UsageError,
)

if TYPE_CHECKING:
    from orchestrator.runtime.containers import ContainerState
    from orchestrator.secret import Secret
    from orchestrator.transport.connection import Connection


@dataclass(frozen=True, slots=True)
class Place:
    """Where the command runs: on a host, or in a container of it. `label` begins its lines."""

    host: str
    label: str
    argv: Sequence[str]
    container: str | None = None


@dataclass(slots=True)
class Result:
    """How it went at one place. `status` is None where it never ran to its end."""

    place: Place
    status: int | None = None
    error: OrcError | None = None
    lines: dict[str, list[str]] = field(default_factory=lambda: {"stdout": [], "stderr": []})

    def to_dict(self) -> dict[str, Any]:
        return {
            "host": self.place.host,
            "container": self.place.container,
            "exit_status": self.status,
            "stdout": "".join(f"{line}\n" for line in self.lines["stdout"]),
            "stderr": "".join(f"{line}\n" for line in self.lines["stderr"]),
            "error": str(self.error) if self.error else None,
        }


@grouped
def exec_(
    reach: Reach,
    pattern: Annotated[
        str,
        typer.Argument(
            metavar="PATTERN", help="Which hosts: all, a:&b:!c, globs.", autocompletion=host_names
        ),
    ],
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="No shell.")],
    inside: Annotated[
        str | None,
        typer.Option(
            "--in",
            metavar="NAME",
            help="Inside the containers of this deployment.",
            autocompletion=deployment_names,
        ),
    ] = None,
    rank: Annotated[int | None, typer.Option("--rank", help="With --in: only this rank.")] = None,
    replica: Annotated[
        int | None, typer.Option("--replica", help="With --in: only this replica.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", min=0.1, help="Seconds for each host.")
    ] = None,
    check: CheckOption = False,
    as_json: JsonOption = False,
    verbose: VerboseOption = 0,  # noqa: ARG001 - read in cli.main
) -> int:
    """Run a command on the hosts of PATTERN at once.

    Each line stands after its host's name. The words are the command's own: no shell reads them
    (`-- sh -c '...'` asks for one). Ctrl-C ends it on the hosts, but not what was begun inside
    a container. Exit status: 0 if it ended with 0 everywhere, 2 if it failed somewhere, 4 if a
    host was not reached.
    """
    if inside is None and (rank is not None or replica is not None):
        raise UsageError("--rank and --replica go with --in NAME")
    with session(reach) as opened:
        hosts = list(opened.inventory.limit(pattern).hosts)
        results: list[Result] = []
        if inside is None:
            places = [Place(host, host, command) for host in hosts]
        else:
            places, results = _in_containers(opened, hosts, inside, command, rank, replica)
        if check:
            for place in places:
                sys.stdout.write(f"{place.label} | would run {shlex.join(place.argv)}\n")
            return int(_exit_status(results))
        results += _run(opened, places, known_secrets(opened.inventory, hosts), timeout, as_json)
    status = _exit_status(results)
    if as_json:
        document = {"results": [one.to_dict() for one in results], "exit_status": int(status)}
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    for one in results:
        if one.error:
            sys.stderr.write(f"{one.error}\n")
        elif one.status:
            sys.stderr.write(f"{one.place.label}: exit status {one.status}\n")
    return int(status)


def _in_containers(
    opened: Session,
    hosts: Sequence[str],
    name: str,
    command: Sequence[str],
    rank: int | None,
    replica: int | None,
) -> tuple[list[Place], list[Result]]:
    """A place for each container that is meant, and a result for each that cannot be used."""
    from orchestrator.health.observation import observe

    seen = observe(opened.pool, hosts)
    failed: list[Result] = []
    for host, why in seen.explained.items():
        kind = UnreachableError if host in seen.unreachable else DeploymentError
        failed.append(Result(Place(host, host, ()), error=kind(why, where=host)))
    states = [
        state
        for state in seen.containers(name)
        if rank in (None, state.rank) and replica in (None, state.replica)
    ]
    if not states and not failed:
        raise none_found(seen, name)
    places = []
    for state in states:
        place = _place(state, command)
        if state.running:
            places.append(place)
        else:
            error = DeploymentError(
                f"{state.name} does not run: {state.ending()}", where=state.host
            )
            failed.append(Result(place, error=error))
    return places, failed


def _place(state: ContainerState, command: Sequence[str]) -> Place:
    from orchestrator.planning.service import short_group_name
    from orchestrator.runtime.docker_commands import exec_command

    label = f"{state.host} {short_group_name(state.replica)} n{state.rank}"
    return Place(state.host, label, exec_command(state.id, command), state.name)


def _run(
    opened: Session,
    places: Sequence[Place],
    secrets: list[Secret],
    timeout: float | None,
    as_json: bool,
) -> list[Result]:
    """Run everywhere, and show lines as they come; a host's containers one after the other."""
    from orchestrator.secret import redact

    width = max((len(place.label) for place in places), default=0)
    writing = threading.Lock()

    def run(connection: Connection, place: Place) -> Result:
        result = Result(place)

        def take(stream: str, line: str) -> None:
            text = redact(line, secrets)
            if as_json:
                result.lines[stream].append(text)
                return
            with writing:
                out = sys.stdout if stream == "stdout" else sys.stderr
                out.write(f"{place.label:<{width}} | {text}\n")
                out.flush()

        try:
            result.status = connection.stream(place.argv, take, timeout=timeout)
        except OrcError as error:
            result.error = error
        return result

    by_host = {place.host: [p for p in places if p.host == place.host] for place in places}
    answers = opened.pool.map(by_host, lambda c: [run(c, place) for place in by_host[c.host]])
    results: list[Result] = []
    for host, answer in answers.items():
        if isinstance(answer, OrcError):
            results += [Result(place, error=answer) for place in by_host[host]]
        else:
            results += answer
    return results


def _exit_status(results: Sequence[Result]) -> ExitStatus:
    if any(one.status or (one.error and not isinstance(one.error, UnreachableError))
           for one in results):  # fmt: skip
        return ExitStatus.FAILED
    return ExitStatus.UNREACHABLE if any(one.error for one in results) else ExitStatus.OK
