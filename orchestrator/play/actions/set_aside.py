"""Stop replicas and keep their containers aside, so that a roll can go back to them."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.errors import DeploymentError, ErrorGroup
from orchestrator.planning.spec_before import spec_before, stale
from orchestrator.play.action import Action, Arguments
from orchestrator.play.actions.by_host import on_each_host
from orchestrator.play.actions.running import Running, running
from orchestrator.play.actions.stop_containers import STOP_SECONDS, stop_all
from orchestrator.play.result import HostResult, Report
from orchestrator.play.run import Run
from orchestrator.runtime.aside_scripts import set_aside_script
from orchestrator.runtime.container import BEFORE
from orchestrator.runtime.containers import ContainerState


class SetAsideArguments(Arguments):
    """Nothing can be set: a rank is given 60 s to end before it is killed."""


def perform(run: Run, _: SetAsideArguments, report: Report) -> None:
    """All ranks of the batch's replicas at once: a group has one fate.

    A replica that runs as planned already is left alone: an interrupted roll has started it, and
    has not put it back into the router.
    """
    seen = running(run)
    replicas = [number for number in seen.replicas(run) if run.starts(number)]
    states = [state for number in replicas for state in seen.of(number)]
    _refuse_taken(run, seen, states)
    # Also what is not there yet: should it fail, it is this roll that has to clear it away.
    run.stopped_replicas |= {n for n in run.rolling or () if run.in_scope(n) and run.starts(n)}
    run.aside |= {state.id for state in states}
    dropped = [state for number in replicas for state in _dropped(run, seen, number)]
    states = [state for state in states if state not in dropped]
    if run.check:
        for state in states:
            text = f"would stop {state.name} and keep it aside"
            report(HostResult(state.host, "changed", text, state.replica, state.rank))
        for state in dropped:
            text = f"would stop and remove {state.name}"
            report(HostResult(state.host, "changed", text, state.replica, state.rank))
        return
    run.touched |= set(replicas)
    stop_all(run, dropped, seen.deployment)
    for state in states:
        run.say("progress", f"stopping {state.name}", host=state.host)
    on_each_host(
        run,
        [(state.host, state.name) for state in states],
        lambda names: set_aside_script(names, seen.deployment, seconds=STOP_SECONDS),
        "stop and put aside",
    )
    for state in states:
        text = f"{state.name} is stopped and kept aside"
        report(HostResult(state.host, "changed", text, state.replica, state.rank))


def _refuse_taken(run: Run, seen: Running, states: Sequence[ContainerState]) -> None:
    """Raises DeploymentError, before anything stops, where a name that is needed is taken."""
    assert run.observation is not None
    needed = {(state.host, f"{state.name}{BEFORE}") for state in states}
    taken = [
        DeploymentError(
            f"a container named {state.name} exists and is not of {seen.deployment}",
            where=state.host,
            why="a roll keeps the spec before under that name; nothing was stopped",
            hint=f"remove it, or give it another name: docker rename {state.name} NAME",
        )
        for host in run.observation.hosts
        for state in host.containers
        if (state.host, state.name) in needed and state.deployment != seen.deployment
    ]
    if taken:
        raise ErrorGroup(taken)


def _dropped(run: Run, seen: Running, replica: int) -> tuple[ContainerState, ...]:
    """What makes room: what a roll that did not end has started and that never served, so that
    the spec before it is still the one to go back to; else what an earlier roll has kept."""
    present, aside = seen.of(replica), seen.aside_of(replica)
    if replica in run.unproven:
        return spec_before(present, aside).newer
    return stale(present, aside)


ACTION = Action("set_aside", SetAsideArguments, perform, level="replica")
