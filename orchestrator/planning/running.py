"""Where the replicas of a deployment run, from what the hosts said: an input of the plan. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.runtime.container import BEFORE
from orchestrator.runtime.containers import ContainerState
from orchestrator.topology.placement import Place, Placement


def running_placement(name: str, containers: Iterable[ContainerState]) -> Placement:
    """The places of every replica of deployment `name` that has all its ranks, one of them up.

    Of one that a roll has stopped and not started again, those that it had before.
    """
    ours = [s for s in containers if s.deployment == name and s.replica >= 0]
    replicas: dict[int, list[ContainerState]] = {}
    for state in ours:
        if not state.aside:
            replicas.setdefault(state.replica, []).append(state)
    stopped: dict[int, list[ContainerState]] = {}
    for state in ours:
        if state.replica not in replicas and state.name.endswith(BEFORE):
            stopped.setdefault(state.replica, []).append(state)
    running = {n: states for n, states in replicas.items() if any(s.running for s in states)}
    return {
        number: _places(states)
        for number, states in {**stopped, **running}.items()
        if len(states) == states[0].nodes
    }


def _places(states: list[ContainerState]) -> tuple[Place, ...]:
    """By host, in the order of the plan's nodes: ranks, and prefill before decode."""
    gpus: dict[str, list[int]] = {}
    for state in sorted(states, key=lambda state: (state.role == "decode", state.rank)):
        gpus.setdefault(state.host, []).extend(state.gpus)
    return tuple(Place(host, tuple(own)) for host, own in gpus.items())
