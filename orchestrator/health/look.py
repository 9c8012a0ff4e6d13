"""One look at everything that runs: containers, GPUs, endpoints and their load. For `orc status`.

Needs only the inventory and the labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.errors import OrcError
from orchestrator.health.endpoint import EndpointCheck, Target, check_endpoint
from orchestrator.health.metrics import Load, Metrics, two_looks
from orchestrator.health.observation import Observation, observe
from orchestrator.health.router_api import workers
from orchestrator.health.status import DeploymentStatus, deployment_statuses
from orchestrator.health.targets import running_targets
from orchestrator.runtime.containers import ContainerState
from orchestrator.transport.connection import Connection
from orchestrator.transport.pool import ConnectionPool

# A completion under load may take long; that alone is no failure, so it is not waited for.
_COMPLETION_TIMEOUT = 5.0
_APART = 1.0  # seconds between the two looks at an endpoint's counters


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen. `metrics` make the rates of the next look."""

    seen: Observation
    statuses: Sequence[DeploymentStatus]
    metrics: Mapping[Target, Metrics] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Answer:
    check: EndpointCheck
    metrics: Metrics | None = None
    load: Load | None = None


def look(
    pool: ConnectionPool, hosts: Iterable[str], name: str | None = None, before: Look | None = None
) -> Look:
    """Look at all hosts, and at the endpoints of the deployment `name`, or of all."""
    seen = observe(pool, hosts, gpus=True)
    states = seen.shown(name)
    targets = running_targets(states)
    known = before.metrics if before else {}

    def ask(connection: Connection) -> dict[Target, _Answer]:
        return {t: _ask(connection, t, known) for t in targets if t.host == connection.host}

    found: dict[Target, _Answer] = {}
    for host, answer in pool.map(dict.fromkeys(target.host for target in targets), ask).items():
        if isinstance(answer, OrcError):
            failed = _Answer(EndpointCheck("connect", answer.what))
            found |= {target: failed for target in targets if target.host == host}
        else:
            found |= answer
    statuses = deployment_statuses(
        states,
        {target: found[target].check for target in targets},
        seen.unknown,
        loads={t.url: a.load for t, a in found.items() if a.load},
        gpus={host.host: host.gpus for host in seen.hosts},
        left_out=_left_out(pool, states),
    )
    metrics = {target: a.metrics for target, a in found.items() if a.metrics}
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


def _ask(connection: Connection, target: Target, known: Mapping[Target, Metrics]) -> _Answer:
    # The load first: the completion that is asked then is not part of it.
    metrics, load = two_looks(connection, target, known, apart=_APART)
    check = check_endpoint(connection, target, completion_timeout=_COMPLETION_TIMEOUT)
    return _Answer(check, metrics, load)
