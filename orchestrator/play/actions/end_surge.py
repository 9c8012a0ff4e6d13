"""Stop the additional replica that a roll has started, once all others serve again."""

from __future__ import annotations

from orchestrator.deployment import Seconds
from orchestrator.play.action import Action, Arguments
from orchestrator.play.actions.drain import drain
from orchestrator.play.actions.running import running
from orchestrator.play.actions.stop_containers import stop_all
from orchestrator.play.result import HostResult, Report
from orchestrator.play.run import Run


class EndSurgeArguments(Arguments):
    """`timeout`: how long to wait for its requests; what is left after it is cut off."""

    timeout: Seconds = 600.0


def perform(run: Run, arguments: EndSurgeArguments, report: Report) -> None:
    assert run.surge is not None
    seen = running(run)
    # Also what an earlier surge has left of it.
    states = [*seen.of(run.surge), *seen.aside_of(run.surge)]
    if run.check:
        report(
            HostResult(run.planned.nodes[-1].host, "changed", "would stop the additional replica")
        )
        return
    drain(run, seen, seen.targets(run.surge), arguments.timeout)
    stop_all(run, states, seen.deployment)
    for state in states:
        report(HostResult(state.host, "changed", f"{state.name} is stopped and removed", run.surge))
    run.rolled.discard(run.surge)


ACTION = Action("end_surge", EndSurgeArguments, perform, applies=lambda run: run.surge is not None)
