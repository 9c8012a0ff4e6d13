"""What is said of a group that did not start: no more than there is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from orchestrator.health.observation import Observation
from orchestrator.play.actions import stop_failed as module
from orchestrator.runtime.containers import ContainerState, HostObservation

Said = list[tuple[str, str]]
Stop = Callable[..., tuple[Said, list[str]]]  # what is said, and the containers that it stops


def container(rank: int, status: str = "running", replica: int = 0) -> ContainerState:
    labels = {"orc.deployment": "kimi", "orc.nodes": "2", "orc.rank": str(rank)}
    labels["orc.replica"] = str(replica)
    name = f"orc-kimi-r{replica}-n{rank}"
    return ContainerState(f"node0{rank + 1}", name, name, status, labels)


@pytest.fixture
def stop(monkeypatch: pytest.MonkeyPatch) -> Stop:
    """`stop_failed` of what is there."""

    def act(
        *there: ContainerState, unreachable: dict[str, str] | None = None, **more: Any
    ) -> tuple[Said, list[str]]:
        said: Said = []
        stopped: list[str] = []

        class Run:
            name = "kimi"
            pool = None

            def say(self, kind: str, text: str, **more: object) -> None:
                said.append((kind, text))

        def stop_containers(
            pool: object, states: list[ContainerState], *rest: object, **more: object
        ) -> dict[str, None]:
            stopped.extend(state.name for state in states)
            return {}

        hosts = tuple(HostObservation(state.host, containers=(state,)) for state in there)
        seen = Observation(hosts, unreachable or {}, {})
        monkeypatch.setattr(module, "observe", lambda pool, hosts: seen)
        monkeypatch.setattr(module, "stop_containers", stop_containers)
        module.stop_failed(Run(), more.pop("replicas", [0]), ["node01", "node02"], **more)  # type: ignore[arg-type]
        return said, stopped

    return act


STAY = "; the containers stay for orc logs"


def test_where_no_container_was_made_none_is_said_to_stay(stop: Stop) -> None:
    assert stop() == ([("note", "nothing of replica 0 runs")], [])


def test_a_whole_group_is_stopped_and_stays(stop: Stop) -> None:
    said = [("note", f"stopped every rank of replica 0{STAY}")]
    assert stop(container(0), container(1, "exited")) == (said, ["orc-kimi-r0-n0"])


def test_of_a_part_of_a_group_it_is_not_said_that_it_was_every_rank(stop: Stop) -> None:
    said = [("note", f"stopped what was started of replica 0{STAY}")]
    assert stop(container(1)) == (said, ["orc-kimi-r0-n1"])
    said = [("note", f"stopped what was started of replica 0, replica 1{STAY}")]
    assert stop(container(0), container(1), replicas=[0, 1])[0] == said


def test_what_somebody_else_started_is_not_called_stopped(stop: Stop) -> None:
    said = [("note", "nothing of replica 0 was started by this run")]
    assert stop(container(0), container(1), ours=lambda state: False) == (said, [])


def test_of_a_host_that_does_not_answer_nothing_is_said_to_be_known(stop: Stop) -> None:
    said, _ = stop(unreachable={"node02": "no route"})
    assert said[0][0] == "warning" and "unknown whether" in said[0][1]
    assert said[1] == ("note", "nothing of replica 0 runs on the other hosts")
    said, _ = stop(container(0), unreachable={"node02": "no route"})
    assert said[1] == ("note", f"what runs of replica 0 is stopped on the other hosts{STAY}")
