"""One look at everything that runs: containers, GPUs, endpoints and their load. For `orc status`.

Needs only the inventory and the labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.errors import OrcError
from orchestrator.health.endpoint import Target
from orchestrator.health.metrics import Metrics, measure
from orchestrator.health.observation import Observation, observe
from orchestrator.health.probe import probe_endpoints
from orchestrator.health.router_api import workers
from orchestrator.health.status import DeploymentStatus, deployment_statuses
from orchestrator.health.targets import running_targets
from orchestrator.runtime.containers import ContainerState
from orchestrator.transport.pool import ConnectionPool

# A completion under load may take long; that alone is no failure, so it is not waited for.
_COMPLETION_TIMEOUT = 5.0


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen. `metrics` make the rates of the next look."""

    seen: Observation
    statuses: Sequence[DeploymentStatus]
    metrics: Mapping[Target, Metrics] = field(default_factory=dict)


def look(
    pool: ConnectionPool, hosts: Iterable[str], name: str | None = None, before: Look | None = None
) -> Look:
    """Look at all hosts, and at the endpoints of the deployment `name`, or of all."""
    seen = observe(pool, hosts, gpus=True)
    states = seen.shown(name)
    targets = running_targets(states)
    # The load first: the completions that are asked then are not part of it.
    metrics, loads = measure(pool, targets, before.metrics if before else {})
    checks = probe_endpoints(pool, targets, completion_timeout=_COMPLETION_TIMEOUT)
    statuses = deployment_statuses(
        states,
        checks,
        seen.unknown,
        loads={target.url: load for target, load in loads.items()},
        gpus={host.host: host.gpus for host in seen.hosts},
        left_out=_left_out(pool, states),
    )
    return Look(seen, statuses, metrics)


def _left_out(pool: ConnectionPool, states: Iterable[ContainerState]) -> set[str]:
    """The URLs of endpoints to which their deployment's router sends no requests, where it says."""
    running = [state for state in states if state.running and state.endpoint]
    found: set[str] = set()
    for router in (state for state in running if state.role == "router"):
        try:
            known = workers(pool.connection(router.host), router.endpoint or "")
        except OrcError:  # its own health says what is the matter with it
            continue
        found |= {
            state.endpoint
            for state in running
            if state.deployment == router.deployment and state.role != "router" and state.endpoint
            if not known.get(state.endpoint)
        }
    return found
