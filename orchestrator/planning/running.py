"""Where the replicas of a deployment run, from what the hosts said: an input of the plan. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.runtime.containers import ContainerState
from orchestrator.topology.placement import Place, Placement


def running_placement(name: str, containers: Iterable[ContainerState]) -> Placement:
    """The places of every replica of deployment `name` that has all its ranks, one of them up."""
    replicas: dict[int, list[ContainerState]] = {}
    for state in containers:
        if state.deployment == name and state.replica >= 0 and not state.aside:
            replicas.setdefault(state.replica, []).append(state)
    return {
        number: _places(states)
        for number, states in replicas.items()
        if len(states) == states[0].nodes and any(state.running for state in states)
    }


def _places(states: list[ContainerState]) -> tuple[Place, ...]:
    """By host, in the order of the plan's nodes: ranks, and prefill before decode."""
    gpus: dict[str, list[int]] = {}
    for state in sorted(states, key=lambda state: (state.role == "decode", state.rank)):
        gpus.setdefault(state.host, []).extend(state.gpus)
    return tuple(Place(host, tuple(own)) for host, own in gpus.items())
