"""Stop and remove every container of a deployment, and make sure that they are gone."""

from __future__ import annotations

from orchestrator.errors import InputError, OrcError, UnreachableError
from orchestrator.health.observation import Observation, observe
from orchestrator.play.action import Action, Arguments
from orchestrator.play.actions.stop_containers import stop_containers
from orchestrator.play.history import SpecChange, group_spec
from orchestrator.play.hold_lock import hold_lock
from orchestrator.play.record_change import begin_change
from orchestrator.play.result import HostResult, Report, Status
from orchestrator.play.run import Run
from orchestrator.runtime.containers import ContainerState


class StopArguments(Arguments):
    """Nothing can be set: a rank is given 60 s to end before it is killed."""


def perform(run: Run, _: StopArguments, report: Report) -> None:
    """Reports every host. "Stopped" is said only of what a look afterwards shows to be gone."""
    if run.name is None:
        raise InputError("which deployment is to be stopped was not said")
    seen = run.observation or observe(run.pool, run.inventory.hosts)
    if not run.check:
        hold_lock(run, {state.host for state in seen.everything(run.name)})
        seen = observe(run.pool, run.inventory.hosts)  # whoever had the lock may have changed it
    states = tuple(s for s in seen.everything(run.name) if run.in_scope(s.replica))
    if run.check:
        for state in states:
            report(HostResult(state.host, "changed", f"would stop and remove {state.name}"))
        _report_unknown(seen, report)
        return
    begin_change(run, _spec_changes(states))
    for state in states:
        run.say("progress", f"stopping {state.name} ({state.status})", host=state.host)
    answers = stop_containers(run.pool, states, run.name, remove=True)
    hosts = list(dict.fromkeys(state.host for state in states))
    after = observe(run.pool, hosts)
    left = tuple(s for s in after.everything(run.name) if run.in_scope(s.replica))
    run.stopped += len(states) - len(left)
    for host in hosts:
        _report_host(host, states, left, after, answers.get(host), report)
    for host in run.inventory.hosts:
        if run.scope is None and host not in hosts and host not in seen.unknown:
            report(HostResult(host, "ok", "nothing to stop"))
    _report_unknown(seen, report)


def _spec_changes(states: tuple[ContainerState, ...]) -> dict[int, SpecChange]:
    numbers = {state.replica for state in states}
    return {
        number: SpecChange(
            group_spec(s for s in states if s.replica == number and not s.aside), None
        )
        for number in numbers
    }


def _report_host(
    host: str,
    states: tuple[ContainerState, ...],
    left: tuple[ContainerState, ...],
    after: Observation,
    answer: OrcError | None,
    report: Report,
) -> None:
    names = ", ".join(state.name for state in states if state.host == host)
    remaining = [state.name for state in left if state.host == host]
    if host in after.unreachable or isinstance(answer, UnreachableError):
        why = after.explained.get(host) or (answer.reason if answer else "")
        text = f"unknown whether {names} stopped: {why}"
        report(HostResult(host, "unreachable", text))
    elif host in after.broken:
        text = f"unknown whether {names} stopped: {after.explained[host]}"
        report(HostResult(host, "failed", text))
    elif remaining:
        why = f"\n{answer}" if answer else ""
        report(HostResult(host, "failed", f"still there: {', '.join(remaining)}{why}"))
    else:
        report(HostResult(host, "changed", f"stopped and removed {names}"))


def _report_unknown(seen: Observation, report: Report) -> None:
    for host, why in seen.explained.items():
        status: Status = "unreachable" if host in seen.unreachable else "failed"
        report(HostResult(host, status, f"unknown what runs there: {why}"))


ACTION = Action("stop", StopArguments, perform, level="replica")
