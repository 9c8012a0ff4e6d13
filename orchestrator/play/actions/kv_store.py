"""Start the KV store's master and store services, and wait until their ports answer."""

from __future__ import annotations

import time

from orchestrator.errors import DeploymentError
from orchestrator.planning.launch_spec import LaunchSpec
from orchestrator.play.action import Action, Arguments, HostResult, Report
from orchestrator.play.actions.start import start_groups
from orchestrator.play.run import Run
from orchestrator.transport.connection import Connection

_PATIENCE = 120.0  # seconds; a store service registers its memory before it listens
_INTERVAL = 0.5


class KvStoreArguments(Arguments):
    """Nothing can be set: the plan says it all."""


def perform(run: Run, _: KvStoreArguments, report: Report) -> None:
    """Reports every service. Raises DeploymentError for one that does not answer in time."""
    services = run.planned.services
    start_groups(run, services, report)
    if run.check:
        return
    masters = [spec for spec in services if spec.role == "kv_master"]
    for spec in [*masters, *(s for s in services if s not in masters)]:
        _wait(run.pool.connection(spec.host), spec)
        ports = ", ".join(map(str, spec.ports.values()))
        text = f"{spec.name} answers on {ports}"
        report(HostResult(spec.host, "ok", text, spec.replica, spec.rank))


def _wait(connection: Connection, spec: LaunchSpec) -> None:
    deadline = time.monotonic() + _PATIENCE
    for use, port in spec.ports.items():
        while not _answers(connection, spec.address or "127.0.0.1", port):
            if time.monotonic() > deadline:
                raise DeploymentError(
                    f"{spec.name} does not answer on port {port} ({use}) after {_PATIENCE:.0f} s",
                    where=spec.host,
                    hint=f"orc logs {spec.deployment} shows what it said",
                )
            time.sleep(_INTERVAL)


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
