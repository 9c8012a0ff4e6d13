"""Put replicas back into the router."""

from __future__ import annotations

import time
from collections.abc import Collection

from orchestrator.errors import DeploymentError
from orchestrator.health.router_api import add_worker, can_put_back, remove_worker, serving
from orchestrator.planning.draining import can_be_drained
from orchestrator.play.action import Action, Arguments
from orchestrator.play.actions.mark_draining import mark_draining
from orchestrator.play.actions.running import Running, hosts_of_batch, running
from orchestrator.play.result import HostResult, Report
from orchestrator.play.run import Run

_PATIENCE = 60.0
_INTERVAL = 0.5


class UndrainArguments(Arguments):
    """Nothing can be set."""


def perform(run: Run, _: UndrainArguments, report: Report) -> None:
    """Ends when the router holds every endpoint of the batch's replicas for healthy."""
    seen = running(run, hosts_of_batch(run))
    for replica in seen.replicas(run):
        for target in seen.targets(replica):
            text = f"{target.url} gets requests again"
            if run.check:
                text = f"would put {target.url} back"
            elif seen.router is None:
                text = f"{target.url} serves; {_no_router(run)}"
            else:
                put_back_worker(run, seen, target.url)
            report(HostResult(target.host, "changed" if seen.router else "ok", text, replica))
        # What the roll could not stop, or put back, is put into the router again, and not rolled.
        old = any(state.id in run.replaces for state in seen.of(replica))
        if seen.targets(replica) and not run.check and not old:
            run.rolled.add(replica)


def _no_router(run: Run) -> str:
    router = run.plan.router if run.plan else None
    if router is not None and router.host not in run.inventory.hosts:
        return f"whether it gets requests is not known: the router's host {router.host} is lost"
    return "there is no router"


def rejoin(run: Run, replicas: Collection[int]) -> None:
    """Let the router send requests to replicas that were restarted, where there is a router.

    Raises OrcError when it does not.
    """
    seen = running(run)
    for replica in replicas:
        for target in seen.targets(replica) if seen.router is not None else ():
            put_back_worker(run, seen, target.url)


def put_back_worker(run: Run, seen: Running, worker: str) -> None:
    """Add the worker, and wait until the router holds it for healthy."""
    router = seen.router
    assert router is not None
    assert router.endpoint is not None
    connection = run.pool.connection(router.host)
    if can_put_back(router):
        # One that was there all the time may be shut out for a minute, for the requests that
        # failed while it was down (its circuit breaker); a new one is not.
        remove_worker(connection, router.endpoint, worker)
        add_worker(connection, router.endpoint, worker)
    else:
        states = [s for s in seen.states if s.endpoint == worker and can_be_drained(s.command)]
        mark_draining(run, seen, states, present=False)
    deadline = time.monotonic() + _PATIENCE
    while worker not in serving(connection, router.endpoint):
        if time.monotonic() > deadline:
            raise DeploymentError(
                f"the router does not send requests to {worker} after {_PATIENCE:.0f} s",
                where=router.host,
                hint=f"orc logs {seen.deployment}",
            )
        time.sleep(_INTERVAL)


ACTION = Action("undrain", UndrainArguments, perform, level="replica")
