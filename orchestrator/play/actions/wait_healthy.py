"""Wait until every replica answers a completion, or one of its ranks ends."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from orchestrator.deployment import Health
from orchestrator.events.event import Event
from orchestrator.health.endpoint import Target
from orchestrator.health.failure import explain_failure
from orchestrator.health.judge import RankKey, Verdict
from orchestrator.health.targets import plan_targets
from orchestrator.health.watch import Group, Patience, Watch, wait_healthy
from orchestrator.planning.launch_spec import LaunchSpec
from orchestrator.planning.service import group_name
from orchestrator.play.action import Action, Arguments
from orchestrator.play.actions.stop_failed import stop_failed
from orchestrator.play.result import HostResult, Report
from orchestrator.play.run import Run


class WaitArguments(Arguments):
    """`keep_failed`: leave the other ranks of a replica running when it fails."""

    keep_failed: bool = False


def perform(run: Run, arguments: WaitArguments, report: Report) -> None:
    """How long, how often and whether by a completion is the deployment's `health`."""
    plan = run.planned
    if run.check:
        for node in filter(lambda node: run.in_scope(node.replica), plan.nodes):
            text = "would wait until it is healthy"
            report(HostResult(node.host, "ok", text, node.replica, node.rank))
        return
    nodes = [group for group in plan.replicas() if run.in_scope(group[0].replica)]
    groups = planned_groups(run, nodes, plan_targets(plan))
    wait_for_groups(run, groups, report, keep_failed=arguments.keep_failed)


def wait_for_groups(
    run: Run,
    groups: Sequence[Group],
    report: Report,
    *,
    keep_failed: bool,
    health: Health | None = None,
) -> None:
    """Wait until the groups are healthy; one that this run started and that fails is stopped.

    How long is in `health`, else in the deployment's, where the run has one.
    """
    health = health or (run.deployment.health if run.deployment else Health())
    patience = Patience(health.timeout, health.interval, health.completion)
    stops: list[threading.Thread] = []

    with Watch(run.pool.connection, groups, patience) as watch:
        told: set[str] = set()

        def on_step(data: dict[str, object]) -> None:
            _tell_unreachable(run, groups, watch, told)
            run.emit(Event("nodes", data=_clean(run, data)))

        def on_end(group: Group, verdict: Verdict) -> None:
            checks = watch.endpoints(group)
            run.endpoints |= checks
            if verdict.state == "healthy":
                if group.replica in run.started:
                    run.healthy_after[group.replica] = watch.seconds()
                _report_healthy(group, report)
                return
            _report_failed(run, group, verdict, report)
            # What refuses our key is well, as far as anybody can see.
            refused = any(check.key_refused for check in checks.values())
            if group.replica in run.started and not keep_failed and not refused:
                thread = threading.Thread(target=stop_group, args=(run, group), daemon=True)
                thread.start()
                stops.append(thread)

        try:
            wait_healthy(watch, groups, on_step, on_end)
        except KeyboardInterrupt:
            if run.rolling is None:
                _say_interrupted(run)
            raise
    for thread in stops:
        thread.join()


def planned_groups(
    run: Run, specs: Sequence[tuple[LaunchSpec, ...]], targets: Sequence[Target]
) -> list[Group]:
    """The groups of a plan, with the endpoints that they have among `targets`."""
    kept = run.decision.of("keep") if run.decision else ()
    restarts = {
        (state.host, state.name): state.restart_count
        for decision in kept
        for state in decision.containers
    }
    of_group: dict[int, list[Target]] = {}
    for target in targets:
        of_group.setdefault(target.replica, []).append(target)
    groups = []
    for nodes in specs:
        replica = nodes[0].replica
        groups.append(
            Group(
                replica=replica,
                ranks=tuple(RankKey(node.host, node.name, node.rank) for node in nodes),
                targets=tuple(of_group.get(replica, ())),
                restarts={node.name: restarts.get((node.host, node.name), 0) for node in nodes},
            )
        )
    return groups


def _report_healthy(group: Group, report: Report) -> None:
    for rank in group.ranks:
        urls = ", ".join(t.url for t in group.targets if t.host == rank.host)
        report(
            HostResult(
                rank.host,
                "ok",
                f"{group_name(group.replica)} rank {rank.rank} is healthy"
                f"{': ' + urls if urls else ''}",
                group.replica,
                rank.rank,
            )
        )


def _report_failed(run: Run, group: Group, verdict: Verdict, report: Report) -> None:
    failure = explain_failure(run.pool, group, verdict, run.secrets)
    guilty = {problem.rank.host for problem in verdict.problems} or {group.head.host}
    first = verdict.problems[0].rank if verdict.problems else group.head
    for host in sorted(guilty, key=lambda name: name != first.host):
        text = failure.text() if host == first.host else f"see {first.host}"
        data = failure.to_dict() if host == first.host else {}
        report(HostResult(host, "failed", text, group.replica, data=data))
    if group.replica not in run.started:
        run.say(
            "warning",
            f"{group_name(group.replica)} ran before this run and was left as it is",
        )


def stop_group(run: Run, group: Group) -> None:
    """Stop all ranks of a failed replica; the containers stay, so that orc logs can show them."""
    stop_failed(run, [group.replica], [rank.host for rank in group.ranks])


def _tell_unreachable(run: Run, groups: Sequence[Group], watch: Watch, told: set[str]) -> None:
    """Say once when a host cannot be reached, and once when it is back."""
    now: dict[str, str] = {}
    for group in groups:
        now |= watch.verdict(group).unreachable
    for host, why in now.items():
        if host not in told:
            text = f"{why}; that is no dead rank, so orc waits until it is back"
            run.say("warning", text, host=host)
    for host in told - set(now):
        run.say("note", "can be reached again", host=host)
    told.clear()
    told.update(now)


def _clean(run: Run, data: dict[str, object]) -> dict[str, object]:
    replicas = data["replicas"]
    assert isinstance(replicas, list)
    cleaned = [{**replica, "last_line": run.clean(replica["last_line"])} for replica in replicas]
    return {**data, "replicas": cleaned}


def _say_interrupted(run: Run) -> None:
    run.say(
        "warning",
        f"interrupted; what was started goes on running.\n"
        f"see it:    orc status {run.name}; orc logs {run.name}\n"
        f"wait on:   the same command again\n"
        f"remove it: orc down {run.name}",
    )


ACTION = Action("wait_healthy", WaitArguments, perform, level="replica")
