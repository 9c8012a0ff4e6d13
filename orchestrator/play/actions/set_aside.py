"""Stop replicas and keep their containers aside, so that a roll can go back to them."""

from __future__ import annotations

from orchestrator.play.action import Action, Arguments, HostResult, Report
from orchestrator.play.actions.by_host import on_each_host
from orchestrator.play.actions.running import running
from orchestrator.play.actions.stop_containers import STOP_SECONDS
from orchestrator.play.run import Run
from orchestrator.runtime.aside_scripts import set_aside_script


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
    run.stopped_replicas |= set(replicas)
    run.aside |= {state.id for state in states}
    if run.check:
        for state in states:
            text = f"would stop {state.name} and keep it aside"
            report(HostResult(state.host, "changed", text, state.replica, state.rank))
        return
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


ACTION = Action("set_aside", SetAsideArguments, perform, level="replica")
