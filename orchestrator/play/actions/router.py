"""Start the router, and wait until it answers a completion through a replica."""

from __future__ import annotations

from orchestrator.health.router_api import workers
from orchestrator.health.targets import plan_targets, spec_target
from orchestrator.planning.service import ROUTER_GROUP
from orchestrator.play.action import Action, Arguments
from orchestrator.play.actions.running import running
from orchestrator.play.actions.start import start_groups
from orchestrator.play.actions.undrain import put_back_worker
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
    """See to it that every worker gets requests. Raises DeploymentError where one does not.

    One that a killed roll has taken out is put back; and so is one that was down while the router
    ran, to which it may send nothing for a minute, for the requests that failed meanwhile.
    """
    seen = running(run)
    if seen.router is None or not seen.router.endpoint:
        return
    known = workers(run.pool.connection(seen.router.host), seen.router.endpoint)
    there = {t.url for number in seen.numbers for t in seen.targets(number)}
    kept = run.rolling is None and ROUTER_GROUP not in run.started
    was_down = run.started if kept else set()  # a roll has put its replicas back itself
    for target in plan_targets(run.planned):  # the additional replica of a surge is gone by now
        if target not in run.endpoints or target.url not in there:
            continue
        if target.replica in was_down or not known.get(target.url):
            put_back_worker(run, seen, target.url)
        if target.url not in known:
            run.say("note", f"{target.url} was taken out of the router, and is put back")


ACTION = Action(
    "router",
    RouterArguments,
    perform,
    applies=lambda run: run.plan is not None and run.plan.router is not None,
)
