"""`orc history`: who changed what, when, and how it ended."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.grouped import grouped
from orchestrator.cli.options import DeploymentArgument, JsonOption, VerboseOption
from orchestrator.cli.session import Reach, session
from orchestrator.errors import each_cause_once, worst
from orchestrator.planning.service import group_name

if TYPE_CHECKING:
    from orchestrator.play.history import Change


@grouped
def history(
    reach: Reach,
    name: DeploymentArgument = None,
    last: Annotated[
        int, typer.Option("--last", "-n", min=1, help="How many changes to show.")
    ] = 20,
    as_json: JsonOption = False,
    verbose: VerboseOption = 0,  # noqa: ARG001 - read in cli.main
) -> int:
    """Show the changes of a deployment, the newest last.

    They are read from its hosts and from your own record.
    """
    from orchestrator.play.history import read_history
    from orchestrator.play.lock import found_locks

    with session(reach) as opened:
        hosts = list(opened.inventory.hosts)
        changes, silent = read_history(opened.pool, hosts, name)
        others = [] if changes or name is None else read_history(opened.pool, hosts)[0]
        answering = [host for host in hosts if host not in silent]
        locks, _ = found_locks(opened.pool, answering)
        watches, _ = found_locks(opened.pool, answering, "watches")
    going = {lock.holder.id for lock in locks} | {lock.name for lock in watches}
    shown = changes[-last:]
    if as_json:
        for change in shown:
            line = {**change.to_dict(), "state": state(change, going)}
            sys.stdout.write(json.dumps(line) + "\n")
    else:
        lines = [line for change in shown for line in _lines(change, going)]
        lines = lines or [_nothing(name, sorted({change.deployment for change in others}))]
        why = each_cause_once({host: error.reason for host, error in silent.items()})
        lines += [f"{host}: unknown: {why[host]}" for host in why]
        sys.stdout.write("\n".join(lines) + "\n")
    return int(worst(silent.values()))


def _nothing(name: str | None, known: list[str]) -> str:
    text = f"nothing {f'of {name} ' if name else ''}was changed yet, as far as is known"
    return f"{text}; known: {', '.join(known)}" if known else text


def state(change: Change, going: set[str]) -> str:
    """Its result; `goes on` while its lock is held, or the watch that restarts it runs; else it
    was broken off. `going` are the ids of locks, and the names of what is watched."""
    if change.result is not None:
        return change.result
    mine = change.deployment if change.playbook == "watch" else change.id
    return "goes on" if mine in going else "interrupted?"


def _lines(change: Change, going: set[str]) -> list[str]:
    from orchestrator.play.holder import clock, printable

    took = "" if change.ended is None else f"{max(0.0, change.ended - change.begun):.0f} s"
    head = (
        f"{clock(change.moment)}  {change.deployment}  {state(change, going)}  {took}  "
        f"{change.who}  {change.command}"
    )
    lines = [printable(head)]
    if change.cause:
        lines.append(f"  cause: {printable(change.cause)}")
    for number, spec in sorted(change.groups.items()):
        before = spec.before or "new"
        after = "the same" if spec.after == spec.before else spec.after or "removed"
        healthy = change.healthy_seconds.get(number)
        how = "" if healthy is None else f", healthy after {healthy:.0f} s"
        if number in change.untouched:
            how = ", not begun"
        elif number in change.put_back:
            how = f", failed; put back to {spec.before}"
        lines.append(f"  {group_name(number)}: {before} -> {after}{how}")
    return lines
