"""What is said of the way back of a roll when a host is lost on it."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator import Catalog, Inventory, plan
from orchestrator.errors import ErrorGroup, OrcError, UnreachableError
from orchestrator.health.observation import Observation
from orchestrator.play.actions import put_back as module
from orchestrator.play.actions.running import Running
from orchestrator.play.result import HostResult
from orchestrator.play.run import Run
from orchestrator.runtime.containers import ContainerState, HostObservation
from orchestrator.transport.pool import ConnectionPool
from tests.play.test_replicas import INVENTORY, WANTED


def container(host: str, replica: int, rank: int, suffix: str = "") -> ContainerState:
    labels = {"orc.deployment": "tiny", "orc.nodes": "2", "orc.rank": str(rank)}
    labels["orc.replica"] = str(replica)
    name = f"orc-tiny-r{replica}-n{rank}{suffix}"
    return ContainerState(host, f"{host} {name}", name, "running", labels)


def observation(hosts: list[str], *states: ContainerState) -> Observation:
    return Observation(
        tuple(HostObservation(h, tuple(s for s in states if s.host == h)) for h in hosts)
    )


@pytest.fixture
def run(tmp_path: Any) -> Run:
    """A roll that has stopped and started replica 2, which is on n5 and n6."""
    path = tmp_path / "hosts.yml"
    path.write_text(INVENTORY)
    inventory = Inventory.load(path)
    run = Run(inventory, ConnectionPool(inventory.hosts.values()), lambda event: None)
    run.plan = plan(inventory, Catalog.load(), WANTED)
    run.name = "tiny"
    run.started, run.stopped_replicas = {2}, {2}
    run.rolling = (2,)
    return run


def put_back(
    run: Run, monkeypatch: pytest.MonkeyPatch, now: Observation
) -> tuple[list[HostResult], OrcError | None]:
    def look(run: Run, *_: object) -> Running:
        run.observation = now
        return Running("tiny", now.containers("tiny"), now.aside("tiny"))

    def stop(
        _: object, states: list[ContainerState], *__: object, **___: object
    ) -> dict[str, None]:
        return {state.host: None for state in states}

    monkeypatch.setattr(module, "running", look)
    monkeypatch.setattr(module, "stop_containers", stop)
    results: list[HostResult] = []
    try:
        module.perform(run, module.PutBackArguments(stopped_only=True), results.append)
    except OrcError as error:
        return results, error
    return results, None


def test_a_new_replica_is_stopped_where_it_can_be_and_said_to_be_unknown_elsewhere(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.observation = observation(["n5", "n6"])
    results, error = put_back(run, monkeypatch, observation(["n5"], container("n5", 2, 0)))
    assert error is None
    assert [(r.host, r.status, r.message) for r in results] == [
        ("n5", "changed", "orc-tiny-r2-n0 is stopped; there was none before"),
        ("n6", "unreachable", "unknown whether orc-tiny-r2-n1 has stopped; there was none before"),
    ]


def test_a_replica_whose_old_rank_is_on_a_lost_host_is_not_taken_for_a_new_one(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.observation = observation(["n5", "n6"], container("n6", 2, 1))
    run.aside = {"n6 orc-tiny-r2-n1"}
    results, error = put_back(run, monkeypatch, observation(["n5"], container("n5", 2, 0)))
    assert results == []
    assert "rank 1 on n6 is not known" in str(error) and "--resume" in str(error)


def test_a_host_that_is_lost_on_the_way_back_is_said_with_the_way_on(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    broke = UnreachableError("the connection broke", where="n6 (192.0.2.6:22)", hint="general")
    broke.host = "n6"

    def go_back(*_: object) -> None:
        raise ErrorGroup([broke])

    monkeypatch.setattr(module, "_go_back", go_back)
    kept = [container(host, 2, rank, "-before") for rank, host in enumerate(("n5", "n6"))]
    run.observation = observation(["n5", "n6"], *kept)
    _, error = put_back(run, monkeypatch, observation(["n5", "n6"], *kept))
    assert isinstance(error, UnreachableError) and error.host == "n6"
    assert error.hint == (
        "when n6 can be reached again: the same orc roll with --resume, or orc roll tiny --rollback"
    )
