"""`orc status` in tables: what containers and endpoints come to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from orchestrator.health.endpoint import EndpointCheck, Target
from orchestrator.health.metrics import Load
from orchestrator.health.status import DeploymentStatus, deployment_statuses
from orchestrator.runtime.containers import ContainerState
from orchestrator.runtime.gpu_use import GpuUse

URL = "http://10.1.0.11:8000"
TARGET = Target(0, "node01", URL, "kimi")


def rank(number: int, host: str, replica: int = 0, **fields: Any) -> ContainerState:
    labels = {
        "orc.deployment": "kimi",
        "orc.replica": str(replica),
        "orc.rank": str(number),
        "orc.role": "worker" if number else "head",
        "orc.nodes": "2",
    }
    if number == 0:
        labels |= {"orc.endpoint": URL, "orc.model": "kimi"}
    return ContainerState(
        host, f"{host}{number}", f"n{number}", fields.pop("status", "running"), labels, **fields
    )


def one(
    states: list[ContainerState],
    check: EndpointCheck | None = None,
    unknown: dict[str, str] | None = None,
) -> DeploymentStatus:
    checks = {TARGET: check or EndpointCheck("healthy")}
    (found,) = deployment_statuses(states, checks, unknown or {})
    return found


BOTH = [rank(0, "node01"), rank(1, "node02")]


def test_both_ranks_and_a_completion_are_healthy() -> None:
    status = one(BOTH)
    assert status.replicas[0].health == "healthy"
    assert (status.failed, status.unknown) == (False, False)


def test_a_dead_rank_is_named_with_its_reason_though_the_endpoint_answers() -> None:
    status = one([BOTH[0], rank(1, "node02", status="exited", exit_code=137)])
    assert status.failed
    assert status.replicas[0].detail == "rank 1 on node02: exited 137 (SIGKILL)"


def test_a_missing_rank_is_known_by_the_count_on_the_others_labels() -> None:
    status = one([BOTH[0]])
    assert status.failed
    assert "rank 1 on no host: missing" in status.replicas[0].detail


def test_a_missing_rank_may_be_on_a_host_that_did_not_answer() -> None:
    status = one([BOTH[0]], unknown={"node02": "no route"})
    assert (status.failed, status.unknown) == (False, True)
    assert "node02" in status.replicas[0].ranks[1].state


def test_a_failure_that_is_known_is_one_though_a_host_is_unknown() -> None:
    dead = rank(0, "node01", status="exited", exit_code=1)
    assert one([dead], unknown={"node02": "no route"}).failed


def test_an_endpoint_that_answers_500_has_failed() -> None:
    check = EndpointCheck("completion", "a completion answers 500", status=500)
    status = one(BOTH, check)
    assert status.replicas[0].health == "failed"
    assert URL in status.replicas[0].detail


def test_a_refused_key_is_said_and_no_failure() -> None:
    """/health was well before the key was asked for; a proxy that refuses that, too, hides it."""
    status = one(BOTH, EndpointCheck("models", "it wants an API key", status=401, final=True))
    assert (status.replicas[0].health, status.failed) == ("healthy", False)
    note = f"{URL}: no completion could be asked for: it wants an API key"
    assert note in status.replicas[0].notes
    assert one(BOTH, EndpointCheck("health", "/health answers 401", status=401)).failed


def test_a_slow_completion_is_no_failure() -> None:
    check = EndpointCheck("completion", "no answer in 5 s", slow=True)
    status = one(BOTH, check)
    assert (status.replicas[0].health, status.failed) == ("slow", False)


def test_while_it_loads_it_is_starting_and_not_healthy() -> None:
    status = one(BOTH, EndpointCheck("connect", "nothing answers yet"))
    assert (status.replicas[0].health, status.failed) == ("starting", True)


def test_the_rank_that_died_first_is_named_first() -> None:
    status = one(
        [
            rank(0, "node01", status="exited", exit_code=1, ended_seconds_ago=2.0),
            rank(1, "node02", status="exited", exit_code=0, ended_seconds_ago=8.0),
        ]
    )
    assert status.replicas[0].detail.startswith("rank 1 on node02")


def test_a_replica_of_which_nothing_fails_does_not_suffer_from_another() -> None:
    states = [*BOTH, rank(0, "node03", 1, status="exited", exit_code=1), rank(1, "node04", 1)]
    assert [replica.health for replica in one(states).replicas] == ["healthy", "failed"]


def test_deployments_are_told_apart() -> None:
    other = ContainerState("node01", "x", "x", "running", {"orc.deployment": "llama"})
    names = [status.name for status in deployment_statuses([*BOTH, other], {}, {})]
    assert names == ["kimi", "llama"]


def test_a_ranks_gpus_are_those_that_its_container_was_given() -> None:
    use = tuple(GpuUse(index, 10 * index, 100, index) for index in range(4))
    given = replace(BOTH[0], labels={**BOTH[0].labels, "orc.gpus": "1,2"})
    (status,) = deployment_statuses([given, BOTH[1]], {}, {}, gpus={"node01": use, "node02": use})
    assert [one.gpus for one in status.replicas[0].ranks] == [use[1:3], ()]


def test_an_endpoints_load_stands_beside_it() -> None:
    load = Load(1, 2, 0.5)
    checks = {TARGET: EndpointCheck("healthy")}
    (status,) = deployment_statuses(BOTH, checks, {}, loads={URL: load})
    document = status.to_dict()["replicas"][0]
    assert document["endpoints"][0]["load"] == load.to_dict()


def test_what_looks_changed_by_hand_is_noted_without_a_plan() -> None:
    states = [
        replace(BOTH[0], name="orc-kimi-r0-n0", up_seconds=900.0, image="a@sha256:1"),
        replace(BOTH[1], name="mine", up_seconds=100.0, image="a@sha256:2"),
        replace(BOTH[1], name="orc-kimi-r0-n1", up_seconds=900.0, image="a@sha256:1"),
    ]
    assert one(states).replicas[0].notes == (
        "mine on node02 does not have the name that orc gave it",
        "mine and orc-kimi-r0-n1 both say that they are rank 1",
        "its ranks run different images: a@sha256:1, a@sha256:2",
        "mine on node02 was started 800 s after the others",
    )
    assert one([states[0], states[2]]).replicas[0].notes == ()
