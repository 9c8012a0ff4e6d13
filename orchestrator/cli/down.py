"""`orc down`: stop every rank of a deployment, and be sure of it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.change_options import ChangeOptions
from orchestrator.cli.completion import deployment_names
from orchestrator.cli.grouped import grouped
from orchestrator.cli.options import (
    CheckOption,
    JsonOption,
    VerboseOption,
    YesOption,
)
from orchestrator.cli.session import Reach, Session, choose, not_there, session
from orchestrator.errors import ExitStatus

if TYPE_CHECKING:
    from orchestrator.health.observation import Observation
    from orchestrator.play.request import Request


@grouped
def down(
    reach: Reach,
    changing: ChangeOptions,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="The deployment; may be left out if it is the only.",
            autocompletion=deployment_names,
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Stop all deployments.")] = False,
    check: CheckOption = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
    verbose: VerboseOption = 0,  # noqa: ARG001 - read in cli.main
) -> int:
    """Stop and remove every rank of a deployment.

    Each has 60 s to end, and it is looked whether all are gone.
    """
    from orchestrator.health.observation import observe

    request = changing.request("stop")
    with session(reach, as_json=as_json) as opened:
        seen = observe(opened.pool, opened.inventory.hosts)
        chosen = [*seen.deployments()] if everything else [n for n in [choose(seen, name)] if n]
        _confirm(chosen, seen, yes or check)
        statuses = [_down(opened, deployment, seen, check, request) for deployment in chosen]
        if not chosen:
            statuses = [_nothing(opened, seen, name)]
        return max(statuses)


def _confirm(names: list[str], seen: Observation, sure: bool) -> None:
    """Ask on a terminal; elsewhere the command itself is taken as meant."""
    if sure or not sys.stdin.isatty() or not sys.stderr.isatty():
        return
    for name in names:
        count = len(seen.everything(name))
        hosts = ", ".join(dict.fromkeys(state.host for state in seen.everything(name)))
        if count:
            containers = f"{count} container{'s' * (count > 1)}"
            typer.confirm(f"Stop {name} ({containers} on {hosts})?", abort=True, err=True)


def _down(opened: Session, name: str, seen: Observation, check: bool, request: Request) -> int:
    from orchestrator.play.actions.registry import ACTIONS
    from orchestrator.play.change import run_change
    from orchestrator.play.playbook import packaged_playbook, read_playbook
    from orchestrator.play.run import Run

    if not seen.everything(name):
        return _nothing(opened, seen, name)
    run = Run(
        inventory=opened.inventory,
        pool=opened.pool,
        emit=opened.emit,
        name=name,
        check=check,
        observation=seen,
        request=request,
    )
    recap = run_change(read_playbook(packaged_playbook("stop"), ACTIONS), run)
    status = recap.exit_status
    gone = "1 container is gone" if run.stopped == 1 else f"{run.stopped} containers are gone"
    if check:
        text = "nothing was done (--check)"
    elif status == ExitStatus.OK:
        text = f"{name} is stopped: {gone}"
    elif status == ExitStatus.UNREACHABLE:
        unknown = ", ".join(host for host, n in recap.hosts.items() if n.get("unreachable"))
        text = f"{name}: {gone}; unknown on {unknown}"
    elif not run.touched:
        text = f"{name} is not stopped: nothing was touched"
    else:
        text = f"{name} is not stopped everywhere; {gone}"
    run.say("done", text, data={"exit_status": int(status), "deployment": name})
    return int(status)


def _nothing(opened: Session, seen: Observation, name: str | None) -> int:
    """Nothing of it was found: fine, unless there are hosts of which nothing is known."""
    from orchestrator.events.event import Event, Kind

    for host, why in seen.explained.items():
        kind: Kind = "unreachable" if host in seen.unreachable else "failed"
        opened.emit(Event(kind, f"unknown what runs there: {why}", host=host))
    text = f"nothing to stop: {not_there(seen, name)}" if name else "nothing to stop"
    status = ExitStatus.OK
    if seen.broken:  # a failure that is known weighs more than what is not known
        status = ExitStatus.FAILED
    elif seen.unreachable:
        status = ExitStatus.UNREACHABLE
    if seen.unknown:
        text = f"{text} on the hosts that answered" if seen.hosts else "no host answered"
        text += f"; unknown on {', '.join(seen.unknown)}"
    data = {"exit_status": int(status), "deployment": name}
    opened.emit(Event("done", text, data=data))
    return int(status)
