"""Start the KV store's master and store services, and wait until their ports answer."""

from __future__ import annotations

import time

from orchestrator.health.failure import explain_failure
from orchestrator.health.judge import RankKey, RankProblem, Verdict
from orchestrator.health.observation import observe_host
from orchestrator.health.watch import Group
from orchestrator.planning.launch_spec import LaunchSpec
from orchestrator.play.action import Action, Arguments, HostResult, Report
from orchestrator.play.actions.start import start_groups
from orchestrator.play.actions.wait_healthy import stop_group
from orchestrator.play.run import Run
from orchestrator.transport.connection import Connection

_PATIENCE = 120.0  # seconds; a store service registers its memory before it listens
_INTERVAL = 0.5


class KvStoreArguments(Arguments):
    """`keep_failed`: leave the other services running when one of them fails."""

    keep_failed: bool = False


def perform(run: Run, arguments: KvStoreArguments, report: Report) -> None:
    """Reports every service: one that ends, or does not answer in time, has failed."""
    services = run.planned.services
    start_groups(run, services, report, keep_failed=arguments.keep_failed)
    if run.check:
        return
    ranks = tuple(RankKey(spec.host, spec.name, spec.rank) for spec in services)
    group = Group(services[0].replica, ranks, ())
    deadline = time.monotonic() + _PATIENCE
    for spec, rank in zip(services, ranks, strict=True):
        problem = _wait(run.pool.connection(spec.host), spec, rank, deadline)
        if problem is None:
            ports = ", ".join(map(str, spec.ports.values()))
            text = f"{spec.name} answers on {ports}"
            report(HostResult(spec.host, "ok", text, spec.replica, spec.rank))
            continue
        verdict = Verdict("failed", f"{spec.name} on {spec.host}: {problem.reason}", (problem,))
        failure = explain_failure(run.pool.connection, group, verdict, run.secrets)
        text, data = failure.text(), failure.to_dict()
        report(HostResult(spec.host, "failed", text, spec.replica, spec.rank, data))
        if not arguments.keep_failed and group.replica in run.started:
            stop_group(run, group)
        return


def _wait(
    connection: Connection, spec: LaunchSpec, rank: RankKey, deadline: float
) -> RankProblem | None:
    """Wait until every port of a service answers; returns why that does not come."""
    for use, port in spec.ports.items():
        while not _answers(connection, spec.address or "127.0.0.1", port):
            states = observe_host(connection).containers
            state = next((state for state in states if state.name == spec.name), None)
            if state is None:
                return RankProblem(rank, "its container is gone: it was removed by somebody")
            if not state.running:
                return RankProblem(rank, state.ending(), state)
            if time.monotonic() > deadline:
                text = f"nothing answers on port {port} ({use}) after {_PATIENCE:.0f} s"
                return RankProblem(rank, text, state)
            time.sleep(_INTERVAL)
    return None


def _answers(connection: Connection, address: str, port: int) -> bool:
    try:
        connection.open_socket(address, port, timeout=5.0).close()
    except OSError:
        return False
    return True


ACTION = Action(
    "kv_store",
    KvStoreArguments,
    perform,
    applies=lambda run: run.plan is not None and bool(run.plan.services),
)
