"""Start the router, and wait until it answers a completion through a replica."""

from __future__ import annotations

from orchestrator.health.router_api import add_worker, can_put_back, workers
from orchestrator.health.targets import plan_targets, spec_target
from orchestrator.play.action import Action, Arguments
from orchestrator.play.actions.running import running
from orchestrator.play.actions.start import start_groups
from orchestrator.play.actions.wait_healthy import planned_groups, wait_for_groups
from orchestrator.play.result import HostResult, Report
from orchestrator.play.run import Run


class RouterArguments(Arguments):
    """`keep_failed`: leave the router running when it does not become healthy."""

    keep_failed: bool = False


def perform(run: Run, arguments: RouterArguments, report: Report) -> None:
    """The router starts as soon as one worker is healthy (vllm-router 0.1.17), so it is started
    only after all of them are."""
    plan = run.planned
    assert plan.router is not None
    start_groups(run, [plan.router], report, keep_failed=arguments.keep_failed)
    if run.check:
        report(HostResult(plan.router.host, "ok", "would wait until it is healthy"))
        return
    groups = planned_groups(run, [(plan.router,)], [spec_target(plan.router, plan)])
    wait_for_groups(run, groups, report, keep_failed=arguments.keep_failed)
    _complete_workers(run)


def _complete_workers(run: Run) -> None:
    """Put back what a roll that was killed has taken out of the router, and not put back."""
    seen = running(run)
    if seen.router is None or not seen.router.endpoint or not can_put_back(seen.router):
        return
    connection = run.pool.connection(seen.router.host)
    known = workers(connection, seen.router.endpoint)
    there = {t.url for number in seen.numbers for t in seen.targets(number)}
    for target in plan_targets(run.planned):  # the additional replica of a surge is gone by now
        if target.url not in known and target in run.endpoints and target.url in there:
            add_worker(connection, seen.router.endpoint, target.url)
            run.say("note", f"{target.url} was taken out of the router, and is put back")


ACTION = Action(
    "router",
    RouterArguments,
    perform,
    applies=lambda run: run.plan is not None and run.plan.router is not None,
)
