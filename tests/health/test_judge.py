"""Healthy, starting or failed: tables over what was seen of a replica."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.health.endpoint import EndpointCheck
from orchestrator.health.judge import EndpointLook, HostLook, RankKey, Verdict, judge
from orchestrator.runtime.containers import ContainerState, HostObservation

HEAD = RankKey("node01", "orc-kimi-r0-n0", 0)
WORKER = RankKey("node02", "orc-kimi-r0-n1", 1)
STARTED = 100.0
HEALTHY = EndpointLook(ended=110.0, check=EndpointCheck("healthy"))


def look(rank: RankKey, began: float = 111.0, **fields: Any) -> HostLook:
    state = ContainerState(
        rank.host, rank.name, rank.name, fields.pop("status", "running"), **fields
    )
    return HostLook(began, HostObservation(rank.host, (state,)))


def looks(**worker: Any) -> dict[str, HostLook]:
    return {"node01": look(HEAD), "node02": look(WORKER, **worker)}


def verdict(
    seen: dict[str, HostLook], endpoint: EndpointLook | None = HEALTHY, **more: Any
) -> Verdict:
    return judge((HEAD, WORKER), seen, [endpoint], started=STARTED, **more)


def test_all_ranks_running_after_a_completion_is_healthy() -> None:
    assert verdict(looks()).state == "healthy"


def test_a_completion_alone_is_not_enough_the_ranks_are_looked_at_after_it() -> None:
    """/health and even an answer come from the head while a follower has just died."""
    seen = looks(began=109.0)
    assert verdict(seen).state == "waiting"


@pytest.mark.parametrize(
    "ended",
    [
        {"status": "exited", "exit_code": 1},
        {"status": "exited", "exit_code": 0},
        {"status": "exited", "exit_code": 137, "oom_killed": True},
        {"status": "created", "error": "could not select device driver"},
        {"status": "dead", "exit_code": 255},
        {"status": "restarting"},
        {"status": "paused"},
    ],
)
@pytest.mark.parametrize("endpoint", [None, HEALTHY])
def test_any_end_of_any_rank_fails_the_replica_whatever_its_status(
    ended: dict[str, Any], endpoint: EndpointLook | None
) -> None:
    result = verdict(looks(**ended), endpoint)
    assert result.state == "failed"
    assert [problem.rank for problem in result.problems] == [WORKER]
    assert "rank 1 on node02" in result.detail


def test_a_container_that_was_removed_is_a_failure() -> None:
    seen = {"node01": look(HEAD), "node02": HostLook(111.0, HostObservation("node02"))}
    assert verdict(seen).problems[0].reason.startswith("its container is gone")


def test_the_rank_that_died_first_is_named_first() -> None:
    seen = {
        "node01": look(HEAD, status="exited", exit_code=1, ended_seconds_ago=1.0),
        "node02": look(WORKER, status="exited", exit_code=0, ended_seconds_ago=9.0),
    }
    result = verdict(seen)
    assert [problem.rank for problem in result.problems] == [WORKER, HEAD]
    assert result.detail.startswith("rank 1 on node02: exited 0")
    assert result.detail.endswith("and 1 more")


def test_a_rank_that_docker_restarted_meanwhile_has_failed() -> None:
    """A restart policy hides the end: only the count tells."""
    seen = looks(restart_count=3)
    assert verdict(seen).state == "failed"
    assert verdict(seen, restarts={WORKER.name: 3}).state == "healthy"


def test_a_host_that_cannot_be_reached_is_no_dead_rank() -> None:
    seen = {"node01": look(HEAD), "node02": HostLook(111.0, unreachable="no answer for 12 s")}
    result = verdict(seen)
    assert result.state == "waiting"
    assert result.unreachable == {"node02": "no answer for 12 s"}


def test_a_docker_that_does_not_answer_is_waited_for() -> None:
    seen = {
        "node01": look(HEAD),
        "node02": HostLook(111.0, HostObservation("node02", error="Cannot connect")),
    }
    result = verdict(seen)
    assert (result.state, result.detail) == ("waiting", "node02: Cannot connect")


def test_a_dead_rank_counts_though_another_host_cannot_be_reached() -> None:
    seen = {
        "node01": look(HEAD, status="exited", exit_code=1),
        "node02": HostLook(111.0, unreachable="gone"),
    }
    assert verdict(seen).state == "failed"


def test_a_look_from_before_the_start_does_not_count() -> None:
    seen = looks(began=99.0, status="exited", exit_code=1)
    assert verdict(seen).state == "waiting"


@pytest.mark.parametrize("stage", ["connect", "health", "completion"])
def test_an_endpoint_that_is_not_ready_is_waited_for(stage: Any) -> None:
    endpoint = EndpointLook(110.0, EndpointCheck(stage, "still loading", status=503))
    result = verdict(looks(), endpoint)
    assert (result.state, result.detail) == ("waiting", "still loading")


def test_completions_that_fail_again_and_again_fail_the_start() -> None:
    check = EndpointCheck("completion", "a completion answers 500: boom", status=500)
    assert verdict(looks(), EndpointLook(110.0, check, failures=2)).state == "waiting"
    result = verdict(looks(), EndpointLook(110.0, check, failures=3))
    assert (result.state, result.problems) == ("failed", ())
    assert result.detail == "a completion answers 500: boom (3 times in a row)"


def test_an_endpoint_that_waiting_cannot_mend_fails_at_once() -> None:
    check = EndpointCheck("models", "/v1/models lists b, not a", final=True)
    assert verdict(looks(), EndpointLook(110.0, check)).state == "failed"


def test_every_endpoint_of_a_replica_counts() -> None:
    loading = EndpointLook(110.0, EndpointCheck("connect", "nothing answers"))
    result = judge((HEAD, WORKER), looks(), [HEALTHY, loading], started=STARTED)
    assert result.state == "waiting"
    result = judge((HEAD, WORKER), looks(), [HEALTHY, None], started=STARTED)
    assert result.state == "waiting"
