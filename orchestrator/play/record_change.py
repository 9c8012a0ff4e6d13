"""Write into the history that a run's change begins, and how it ended."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

from orchestrator.errors import ExitStatus, OrcError, each_cause_once
from orchestrator.health.observation import run_script
from orchestrator.play.history import Change, SpecChange, append_to_own
from orchestrator.play.run import Run
from orchestrator.runtime.history_scripts import append_history_script
from orchestrator.transport.connection import CommandResult

_TIMEOUT = 30.0
_RESULTS = {
    ExitStatus.OK: "done",
    ExitStatus.INVALID: "refused",
    ExitStatus.FAILED: "failed",
    ExitStatus.UNREACHABLE: "unreachable",
    ExitStatus.INTERRUPTED: "interrupted",
}


def begin_change(
    run: Run, groups: Mapping[int, SpecChange], cause: str = "", *, ahead: bool = False
) -> None:
    """Write that a change begins, on every host whose lock the run holds and with the user.

    A second call in the same run adds to the groups. `ahead`: they are what is wanted; which of
    them are touched shows later, in `run.touched`. Does nothing without a lock (`--check`). A
    line that cannot be written is warned of.
    """
    if run.lock is None or run.name is None:
        return
    holder = run.lock.holder
    if run.change is None:
        run.change = Change(
            id=holder.id,
            deployment=run.name,
            begun=round(time.time(), 3),
            who=holder.who,
            command=holder.command,
            playbook=run.request.playbook,
            cause=run.clean(cause),
            hosts=list(run.lock.hosts),
        )
    run.change.groups |= groups
    if not ahead:
        run.touched |= set(groups)
    _write(run, "begin", run.change)


def end_change(run: Run, status: ExitStatus) -> None:
    """Write how the change ended, where one was begun."""
    change = run.change
    if change is None:
        return
    change.ended = round(time.time(), 3)
    change.exit_status = int(status)
    change.result = _RESULTS.get(status, "failed")
    if change.result == "refused" and run.touched:
        change.result = "failed"
    change.untouched = sorted(set(change.groups) - run.touched)
    change.put_back = sorted(run.put_back & run.stopped_replicas)
    # What went back took its time with the spec before.
    healthy = {n: s for n, s in run.healthy_after.items() if n not in change.put_back}
    change.healthy_seconds |= {n: round(s, 1) for n, s in healthy.items()}
    _write(run, "end", change)
    run.change = None


def _write(run: Run, event: str, change: Change) -> None:
    line = json.dumps({"event": event, **change.to_dict()}, separators=(",", ":"))
    script = append_history_script(change.deployment, line)
    answers = run.pool.map(change.hosts, lambda c: run_script(c, script, timeout=_TIMEOUT))
    said = {h: a.reason if isinstance(a, OrcError) else _complaint(a) for h, a in answers.items()}
    for host, why in each_cause_once({h: why for h, why in said.items() if why}).items():
        run.say("warning", f"its history could not be written: {why}", host=host)
    try:
        append_to_own(line)
    except OSError as error:
        run.say("warning", f"your own history could not be written: {error}")


def _complaint(answer: CommandResult) -> str | None:
    if answer.ok:
        return None
    said = answer.stderr.strip().splitlines()
    return said[-1] if said else f"status {answer.exit_status}"
