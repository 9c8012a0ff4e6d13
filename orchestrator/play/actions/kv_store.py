"""Start the KV store's master and store services, and wait until their ports answer."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.health.failure import explain_failure
from orchestrator.health.judge import RankKey, RankProblem, Verdict
from orchestrator.health.observation import observe_host
from orchestrator.health.watch import Group
from orchestrator.planning.health_check import KV_STORE_INTERVAL, KV_STORE_SECONDS
from orchestrator.planning.service import KV_STORE_GROUP
from orchestrator.play.action import Action, Arguments
from orchestrator.play.actions.start import start_groups
from orchestrator.play.actions.wait_healthy import stop_group
from orchestrator.play.result import HostResult, Report
from orchestrator.play.run import Run
from orchestrator.transport.connection import Connection


class KvStoreArguments(Arguments):
    """`keep_failed`: leave the other services running when one of them fails."""

    keep_failed: bool = False


def perform(run: Run, arguments: KvStoreArguments, report: Report) -> None:
    """Reports every service: one that ends, or does not answer in time, has failed."""
    services = run.planned.services
    start_groups(run, services, report, keep_failed=arguments.keep_failed)
    if run.check:
        return
    waited = [
        Service(RankKey(spec.host, spec.name, spec.rank), spec.ports, (spec.address,))
        for spec in services
    ]
    wait_for_services(run, waited, report, keep_failed=arguments.keep_failed)


@dataclass(frozen=True, slots=True)
class Service:
    """A container of the KV store, its ports by use, and the addresses that it may listen on."""

    rank: RankKey
    ports: Mapping[str, int]
    addresses: tuple[str | None, ...]


def wait_for_services(
    run: Run, services: Sequence[Service], report: Report, *, keep_failed: bool
) -> bool:
    """Wait until every port answers, and report each; whether all of them do. At the first that
    does not, the group is stopped where this run started it."""
    group = Group(KV_STORE_GROUP, tuple(service.rank for service in services), ())
    begun = time.monotonic()
    for service in services:
        rank = service.rank
        problem = _wait(run.pool.connection(rank.host), service, begun + KV_STORE_SECONDS)
        if problem is None:
            ports = ", ".join(map(str, service.ports.values()))
            text = f"{rank.name} answers on {ports}"
            report(HostResult(rank.host, "ok", text, group.replica, rank.rank))
            continue
        verdict = Verdict("failed", f"{rank.name} on {rank.host}: {problem.reason}", (problem,))
        failure = explain_failure(run.pool, group, verdict, run.secrets)
        text, data = failure.text(), failure.to_dict()
        report(HostResult(rank.host, "failed", text, group.replica, rank.rank, data))
        if not keep_failed and group.replica in run.started:
            stop_group(run, group)
        return False
    if group.replica in run.started:
        run.healthy_after[group.replica] = time.monotonic() - begun
    return True


def _wait(connection: Connection, service: Service, deadline: float) -> RankProblem | None:
    """Wait until every port of a service answers; returns why that does not come."""
    rank = service.rank
    addresses = [address for address in service.addresses if address] or ["127.0.0.1"]
    for use, port in service.ports.items():
        while not any(_answers(connection, address, port) for address in addresses):
            states = observe_host(connection).containers
            state = next((state for state in states if state.name == rank.name), None)
            if state is None:
                return RankProblem(rank, "its container is gone: it was removed by somebody")
            if not state.running:
                return RankProblem(rank, state.ending(), state)
            if time.monotonic() > deadline:
                text = f"nothing answers on port {port} ({use}) after {KV_STORE_SECONDS:.0f} s"
                return RankProblem(rank, text, state)
            time.sleep(KV_STORE_INTERVAL)
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
