"""`orc lock`: who changes what now, and how to end a lock that nobody holds any more."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli.grouped import grouped
from orchestrator.cli.options import DeploymentArgument, JsonOption, VerboseOption, YesOption
from orchestrator.cli.session import Reach, session
from orchestrator.errors import OrcError, each_cause_once, worst

if TYPE_CHECKING:
    from orchestrator.play.lock import Locked
    from orchestrator.runtime.lock_scripts import Kind

lock_app = typer.Typer(
    help="Show and release the locks of deployments.", no_args_is_help=True, rich_markup_mode=None
)


def register(app: typer.Typer) -> None:
    app.add_typer(lock_app, name="lock")


@lock_app.command("status")
@grouped
def status(
    reach: Reach,
    name: DeploymentArgument = None,
    as_json: JsonOption = False,
    verbose: VerboseOption = 0,  # noqa: ARG001 - read in cli.main
) -> int:
    """Show who changes and who watches which deployment.

    Each with the time since it was last heard of.
    """
    from orchestrator.play.lock import found_locks

    with session(reach) as opened:
        hosts = list(opened.inventory.hosts)
        locks, silent = found_locks(opened.pool, hosts)
        watches, _ = found_locks(opened.pool, [h for h in hosts if h not in silent], "watches")
    changing = _by_holder(lock for lock in locks if name in (None, lock.name))
    watching = _by_holder(lock for lock in watches if name in (None, lock.name))
    if as_json:
        document = {
            "locks": [_to_dict(found) for found in changing],
            "watches": [_to_dict(found) for found in watching],
            "unknown": {host: error.reason for host, error in silent.items()},
        }
        _print(json.dumps(document, indent=2))
    else:
        lines = [_line("changed", found) for found in changing]
        lines += [_line("watched", found) for found in watching]
        for line in lines or [_nothing(hosts, silent)]:
            _print(line)
        _print_silent(silent)
    return int(worst(silent.values()))


@lock_app.command("release")
@grouped
def release(
    reach: Reach,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The deployment.")],
    watch: Annotated[
        bool, typer.Option("--watch", help="Its watch's lease instead of the lock.")
    ] = False,
    yes: YesOption = False,
    verbose: VerboseOption = 0,  # noqa: ARG001 - read in cli.main
) -> int:
    """Release the lock of a deployment, whoever holds it. A run that still holds it is told."""
    from orchestrator.play.lock import found_locks, release_locks

    kind: Kind = "watches" if watch else "locks"
    with session(reach) as opened:
        found, silent = found_locks(opened.pool, opened.inventory.hosts, kind)
        mine = [lock for lock in found if lock.name == name]
        for group in _by_holder(mine):
            _print(_line("watched" if watch else "changed", group))
        if mine and not yes and sys.stdin.isatty() and sys.stderr.isatty():
            typer.confirm("Release it?", abort=True, err=True)
        released, more = release_locks(opened.pool, [lock.host for lock in mine], name, kind)
    silent |= more
    hosts = ", ".join(dict.fromkeys(lock.host for lock in released))
    _print(f"released on {hosts}" if hosts else f"there is no lock of {name}")
    _print_silent(silent)
    return int(worst(silent.values()))


def _nothing(hosts: Collection[str], silent: Collection[str]) -> str:
    if len(silent) == len(hosts):
        return "no host answered, so what is changed or watched is not known"
    answered = " on the hosts that answered" if silent else ""
    return f"nothing is being changed or watched{answered}"


def _by_holder(locks: Iterable[Locked]) -> list[list[Locked]]:
    groups: dict[tuple[str, str], list[Locked]] = {}
    for lock in locks:
        groups.setdefault((lock.name, lock.holder.id), []).append(lock)
    return list(groups.values())


def _line(done: str, found: list[Locked]) -> str:
    first = found[0]
    hosts = ", ".join(lock.host for lock in found)
    silent = min(lock.silent for lock in found)
    return (
        f"{first.name} is {done} by {first.holder}\n"
        f"  on {hosts}; last sign of life {silent:.0f} s ago"
    )


def _to_dict(found: list[Locked]) -> dict[str, Any]:
    holder = found[0].holder
    return {
        "deployment": found[0].name,
        "id": holder.id,
        "who": holder.who,
        "pid": holder.pid,
        "since": holder.since,
        "command": holder.command,
        "silent_seconds": min(lock.silent for lock in found),
        "hosts": [lock.host for lock in found],
    }


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")


def _print_silent(silent: Mapping[str, OrcError]) -> None:
    for host, why in each_cause_once({h: error.reason for h, error in silent.items()}).items():
        _print(f"{host}: unknown: {why}")
