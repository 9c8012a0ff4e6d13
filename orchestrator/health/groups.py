"""The groups of a deployment as its containers' labels tell them: no plan is needed."""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.health.judge import RankKey
from orchestrator.health.targets import running_targets
from orchestrator.health.watch import Group
from orchestrator.runtime.containers import ContainerState


def groups_by_labels(states: Iterable[ContainerState]) -> list[Group]:
    """A group for each replica and each kind of service of one deployment's containers.

    The head is first. Endpoints are those of the containers that run.
    """
    by_replica: dict[int, list[ContainerState]] = {}
    for state in states:
        by_replica.setdefault(state.replica, []).append(state)
    return [_group(number, by_replica[number]) for number in sorted(by_replica)]


def _group(replica: int, states: list[ContainerState]) -> Group:
    states = sorted(states, key=lambda state: (state.endpoint is None, state.rank, state.host))
    return Group(
        replica=replica,
        ranks=tuple(RankKey(state.host, state.name, state.rank) for state in states),
        targets=tuple(running_targets(states)),
        restarts={state.name: state.restart_count for state in states},
    )
