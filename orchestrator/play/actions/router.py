"""Start the router, and wait until it answers a completion through a replica."""

from __future__ import annotations

from orchestrator.health.targets import spec_target
from orchestrator.play.action import Action, Arguments, HostResult, Report
from orchestrator.play.actions.start import start_groups
from orchestrator.play.actions.wait_healthy import planned_groups, wait_for_groups
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


ACTION = Action(
    "router",
    RouterArguments,
    perform,
    applies=lambda run: run.plan is not None and run.plan.router is not None,
)
