"""Who changed what, when, and how it ended: lines of JSON on the hosts and with the user.

A change has a line when it begins and one when it ends, under the id of the lock that it holds.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.errors import DeploymentError, OrcError
from orchestrator.health.observation import run_script
from orchestrator.health.status import missing_ranks
from orchestrator.planning.launch_spec import LaunchSpec
from orchestrator.planning.spec_before import place, spec_before
from orchestrator.runtime.container import AFTER
from orchestrator.runtime.containers import ContainerState
from orchestrator.runtime.history_scripts import read_history_script
from orchestrator.state_directory import state_directory
from orchestrator.transport.connection import CommandResult, Connection
from orchestrator.transport.pool import ConnectionPool

_TIMEOUT = 30.0
_MOST_BYTES = 4 << 20  # of the user's own file; the older half goes when it grows beyond


@dataclass(frozen=True, slots=True)
class SpecChange:
    """A group's spec before and after, as `group_spec` gives it; None where there is no group."""

    before: str | None
    after: str | None


@dataclass(slots=True)
class Change:
    """One change. `ended` is None while it goes on, and for ever when its orc was killed.

    `begun` and `ended` are seconds since the epoch by the clock of the machine that made the
    change: one says how long after the other. What it is set against, another's change or a
    container's age, is `moment`. `healthy_seconds` is how long each group took from its start
    until it answered. Of `groups`, those that are `untouched` were to be changed and were not, as
    far as it came; those that were `put_back` were changed, failed, and run the spec before again.
    """

    id: str
    deployment: str
    begun: float
    who: str = ""
    command: str = ""
    playbook: str = ""
    cause: str = ""  # of a restart that nobody asked for
    hosts: list[str] = field(default_factory=list)
    groups: dict[int, SpecChange] = field(default_factory=dict)
    ended: float | None = None
    result: str | None = None
    exit_status: int | None = None
    healthy_seconds: dict[int, float] = field(default_factory=dict)
    untouched: list[int] = field(default_factory=list)
    put_back: list[int] = field(default_factory=list)
    began_here: float | None = None  # by this machine's clock, going by when its hosts wrote it

    @property
    def moment(self) -> float:
        """When it began, by this machine's clock. Of what no host has, as its line says."""
        return self.begun if self.began_here is None else self.began_here

    def to_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "deployment": self.deployment,
            "begun": self.begun,
            "ended": self.ended,
            "who": self.who,
            "command": self.command,
            "playbook": self.playbook,
            "cause": self.cause,
            "hosts": self.hosts,
            "groups": {
                str(number): {"before": spec.before, "after": spec.after}
                for number, spec in self.groups.items()
            },
            "result": self.result,
            "exit_status": self.exit_status,
            "healthy_seconds": {str(n): seconds for n, seconds in self.healthy_seconds.items()},
            "untouched": self.untouched,
            "put_back": self.put_back,
        }


def group_spec(specs: Iterable[LaunchSpec | ContainerState]) -> str | None:
    """A group's spec in 12 digits: of its containers' names and spec hashes; None of nothing.
    What a roll put aside has the name that it had."""
    lines = sorted(
        f"{one.name} {one.spec_hash}"
        if isinstance(one, LaunchSpec)
        else f"{place(one)[1]} {one.spec}"
        for one in specs
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12] if lines else None


def group_specs(
    present: Iterable[ContainerState], aside: Iterable[ContainerState]
) -> tuple[str | None, str | None]:
    """A replica's spec, and the one before it where a roll has kept that. As `spec_before` tells
    them apart, however far a roll or the way back got; one that never ran whole is none."""
    present, aside = tuple(present), tuple(aside)
    kept = spec_before(present, aside)
    if not kept.old:
        return group_spec(present), None
    newest = [*kept.newer, *(state for state in aside if state.name.endswith(AFTER))]
    before = group_spec(kept.old)
    return group_spec(newest) if newest and not missing_ranks(newest) else before, before


def own_history() -> Path:
    """The user's own file: `$XDG_STATE_HOME/orc/history.jsonl`."""
    return state_directory() / "history.jsonl"


def append_to_own(line: str) -> None:
    """Add a line to the user's own file. Raises OSError."""
    path = own_history()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with os.fdopen(os.open(path, os.O_CREAT | os.O_APPEND | os.O_RDWR, 0o600), "a+") as file:
        if file.tell() > _MOST_BYTES:
            file.seek(0)
            kept = file.read()[-_MOST_BYTES // 2 :].partition("\n")[2]
            file.truncate(0)
            file.write(kept)
        file.write(line + "\n")


def read_history(
    pool: ConnectionPool, hosts: Iterable[str], deployment: str | None = None
) -> tuple[list[Change], dict[str, OrcError]]:
    """The changes of a deployment, or of all, the newest last; and why a host said nothing.

    Of the user's own lines those count that tell of one of the hosts.
    """
    hosts = list(hosts)
    script = read_history_script(deployment)
    found: list[Change | None] = []
    silent: dict[str, OrcError] = {}

    def read(connection: Connection) -> tuple[CommandResult, float]:
        return run_script(connection, script, timeout=_TIMEOUT), time.time()

    for host, answer in pool.map(hosts, read).items():
        if isinstance(answer, OrcError):
            silent[host] = answer
            continue
        result, heard = answer
        if not result.ok:
            said = result.stderr.strip() or f"status {result.exit_status}"
            silent[host] = DeploymentError(said.splitlines()[-1], where=host)
        clock, *lines = result.stdout.splitlines() or [""]
        now = _seconds(clock)
        found += [_parse(line, None if now is None else heard - now) for line in lines]
    here = set(hosts)
    changes = [
        change
        for change in _merged([*found, *map(_parse, _own_lines())])
        if deployment in (None, change.deployment) and here & set(change.hosts)
    ]
    return changes, silent


def _own_lines() -> list[str]:
    try:
        return own_history().read_text(errors="replace").splitlines()
    except OSError:  # there is none
        return []


def parse_history(lines: Iterable[str], ahead: float = 0.0) -> list[Change]:
    """Lines of any order, each as often as there are hosts, as changes, the newest last. By so
    many seconds this machine's clock is `ahead` of the one that the lines were written by."""
    return _merged(_parse(line, ahead) for line in lines)


def _merged(found: Iterable[Change | None]) -> list[Change]:
    changes: dict[str, Change] = {}
    for change in found:
        if change is None:
            continue
        known = changes.setdefault(change.id, change)
        began = [c.began_here for c in (known, change) if c.began_here is not None]
        if known.ended is None and _later(change, known):
            known = changes[change.id] = change
        known.began_here = min(began, default=None)
    return sorted(changes.values(), key=lambda change: (change.moment, change.begun))


def _later(change: Change, known: Change) -> bool:
    return change.ended is not None or len(change.groups) > len(known.groups)


def _seconds(text: object) -> float | None:
    """What `date +%s.%N` printed; busybox's has no %N."""
    match = re.match(r"\d+(\.\d+)?", str(text))
    return float(match.group()) if match else None


def _began_here(data: Mapping[str, Any], ahead: float | None) -> float | None:
    """Its end was written as much later as its own clock says."""
    written, ended = _seconds(data.get("written")), data.get("ended")
    if written is None or ahead is None:
        return None
    took = 0.0 if ended is None else float(ended) - float(data["begun"])
    return written + ahead - took


def _parse(line: str, ahead: float | None = None) -> Change | None:
    """A line as a change; None where it is none (cut off, or written by hand)."""
    try:
        data = json.loads(line)
        ended, exit_status = data.get("ended"), data.get("exit_status")
        return Change(
            id=str(data["id"]),
            deployment=str(data["deployment"]),
            begun=float(data["begun"]),
            who=str(data.get("who", "")),
            command=str(data.get("command", "")),
            playbook=str(data.get("playbook", "")),
            cause=str(data.get("cause", "")),
            hosts=[str(host) for host in data.get("hosts", ())],
            groups={
                int(number): SpecChange(spec["before"], spec["after"])
                for number, spec in data.get("groups", {}).items()
            },
            ended=None if ended is None else float(ended),
            result=data.get("result"),
            exit_status=None if exit_status is None else int(exit_status),
            healthy_seconds={int(n): float(s) for n, s in data["healthy_seconds"].items()},
            untouched=[int(number) for number in data.get("untouched", ())],
            put_back=[int(number) for number in data.get("put_back", ())],
            began_here=_began_here(data, ahead),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def start_seconds(changes: Iterable[Change]) -> dict[int, float]:
    """How long each group took, when it was last started, until it was healthy."""
    seconds: dict[int, float] = {}
    for change in changes:
        seconds |= change.healthy_seconds
    return seconds
