"""Endpoint checks against real HTTP servers, through a real connection."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace

import pytest

from orchestrator.health.endpoint import Target, check_endpoint, describe
from orchestrator.inventory.load import implicit_localhost
from orchestrator.secret import Secret
from orchestrator.transport.local import LocalConnection
from tests.health.server import Behaviour, endpoint

HERE = LocalConnection(implicit_localhost())


@pytest.fixture
def behaviour() -> Behaviour:
    return Behaviour()


@pytest.fixture
def target(behaviour: Behaviour) -> Iterator[Target]:
    with endpoint(behaviour) as url:
        yield Target(0, "localhost", url, "tiny")


def test_an_endpoint_that_answers_a_completion_is_healthy(
    target: Target, behaviour: Behaviour
) -> None:
    check = check_endpoint(HERE, target, tokens=4)
    assert check.healthy
    assert check.text == "hello"
    assert check.models == ("tiny",)
    paths = [path for path, _ in behaviour.requests]
    assert paths == ["/health", "/v1/models", "/v1/completions"]
    assert behaviour.requests[-1][1]["model"] == "tiny"
    assert behaviour.requests[-1][1]["max_tokens"] == 4
    assert describe(check).startswith("healthy: connected in ")


def test_every_data_parallel_rank_is_asked_for_a_completion_of_its_own(
    target: Target, behaviour: Behaviour
) -> None:
    """vLLM counts an endpoint's ranks from 0, whichever of all ranks they are."""
    check = check_endpoint(HERE, replace(target, data_ranks=(2, 3)))
    assert check.healthy and check.data_ranks == (2, 3)
    assert behaviour.ranks == ["0", "1"]
    assert "2 data-parallel ranks, the slowest: first token" in describe(check)


def test_a_data_parallel_rank_that_fails_is_named(target: Target, behaviour: Behaviour) -> None:
    behaviour.dead_ranks = frozenset({"1"})
    check = check_endpoint(HERE, replace(target, data_ranks=(2, 3)))
    assert (check.stage, check.status) == ("completion", 500)
    assert check.detail.startswith("data-parallel rank 3: a completion answers 500: ")
    assert check_endpoint(HERE, replace(target, data_ranks=(2, 3)), completion=False).healthy


def test_a_rank_alone_at_its_endpoint_is_not_asked_by_number(
    target: Target, behaviour: Behaviour
) -> None:
    behaviour.completion = 500
    check = check_endpoint(HERE, replace(target, data_ranks=(3,)))
    assert behaviour.ranks == [None]
    assert check.detail.startswith("data-parallel rank 3: a completion answers 500")


def test_a_routers_own_health_is_its_liveness(target: Target, behaviour: Behaviour) -> None:
    """Its /health is 503 while any of its workers is unwell, though it serves (0.1.17)."""
    behaviour.health, behaviour.liveness = 503, 200
    assert check_endpoint(HERE, replace(target, health_path="/liveness")).healthy
    assert check_endpoint(HERE, target).stage == "health"


def test_times_are_measured_to_the_first_token_and_to_the_end(
    target: Target, behaviour: Behaviour
) -> None:
    behaviour.delay, behaviour.between = 0.2, 0.2
    check = check_endpoint(HERE, target)
    assert check.first_token_seconds and check.first_token_seconds >= 0.2
    assert check.total_seconds and check.total_seconds >= check.first_token_seconds + 0.15


def test_no_completion_is_asked_when_none_is_wanted(target: Target, behaviour: Behaviour) -> None:
    behaviour.completion = 404
    check = check_endpoint(HERE, target, completion=False)
    assert check.healthy and check.text is None
    assert describe(check) == "healthy (no completion was asked)"


def test_a_200_of_health_is_not_believed_when_completions_are_500(
    target: Target, behaviour: Behaviour
) -> None:
    """gpustack#3367"""
    behaviour.completion = 500
    check = check_endpoint(HERE, target)
    assert (check.stage, check.status, check.final) == ("completion", 500, False)
    assert "a completion answers 500" in check.detail and "boom" in check.detail


def test_an_error_within_the_stream_is_a_failure(target: Target, behaviour: Behaviour) -> None:
    behaviour.chunks = [{"error": {"message": "engine dead"}}]
    check = check_endpoint(HERE, target)
    assert (check.stage, check.status) == ("completion", 500)
    assert "engine dead" in check.detail


def test_an_empty_completion_is_a_failure(target: Target, behaviour: Behaviour) -> None:
    behaviour.chunks = []
    assert check_endpoint(HERE, target).stage == "completion"


def test_another_model_fails_for_good_naming_both(target: Target, behaviour: Behaviour) -> None:
    behaviour.models = ["other", "third"]
    check = check_endpoint(HERE, target)
    assert check.final
    assert check.detail == "/v1/models lists other, third, not tiny"


def test_an_unhealthy_endpoint_is_not_asked_further(target: Target, behaviour: Behaviour) -> None:
    behaviour.health = 503
    check = check_endpoint(HERE, target)
    assert (check.stage, check.status) == ("health", 503)
    assert len(behaviour.requests) == 1


def test_a_model_without_completions_is_told_how_to_go_on(
    target: Target, behaviour: Behaviour
) -> None:
    behaviour.completion = 404
    check = check_endpoint(HERE, target)
    assert check.final and "health.completion=false" in check.detail


def test_a_key_is_sent_and_never_shown(behaviour: Behaviour) -> None:
    behaviour.api_key = "sk-very-secret"
    behaviour.completion = 500
    behaviour.completion_body = "you sent sk-very-secret"
    with endpoint(behaviour) as url:
        without = check_endpoint(HERE, Target(0, "h", url, "tiny"))
        key = Secret("sk-very-secret")
        check = check_endpoint(HERE, Target(0, "h", url, "tiny", key))
    assert without.final and "VLLM_API_KEY" in without.detail
    assert check.stage == "completion"
    assert "sk-very-secret" not in check.detail and "<secret>" in check.detail


def test_a_completion_without_answer_in_time_is_slow_and_not_broken(
    target: Target, behaviour: Behaviour
) -> None:
    behaviour.delay = 3.0
    check = check_endpoint(HERE, target, completion_timeout=0.3)
    assert check.slow and check.stage == "completion"


def test_a_stream_that_trickles_on_for_ever_ends_at_its_timeout(
    target: Target, behaviour: Behaviour
) -> None:
    behaviour.chunks = [{"choices": [{"text": "x"}]}] * 10_000  # longer than a test may take
    behaviour.between = 0.1
    assert check_endpoint(HERE, target, completion_timeout=0.5).slow


def test_a_port_where_nothing_listens_is_still_connecting() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    check = check_endpoint(HERE, Target(0, "h", f"http://127.0.0.1:{port}", "tiny"))
    assert (check.stage, check.final) == ("connect", False)
    assert "nothing answers" in check.detail


def test_a_port_that_accepts_and_says_nothing_is_not_waited_for_long() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        target = Target(0, "h", f"http://127.0.0.1:{silent.getsockname()[1]}", "tiny")
        check = check_endpoint(HERE, target, connect_timeout=0.3)
    assert check.stage == "health"


def test_a_server_that_hangs_up_in_mid_answer_is_a_failure_and_no_traceback() -> None:
    with socket.create_server(("127.0.0.1", 0)) as rude:
        import threading

        def serve() -> None:
            peer, _ = rude.accept()
            peer.recv(1000)
            peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
            peer.close()

        threading.Thread(target=serve, daemon=True).start()
        target = Target(0, "h", f"http://127.0.0.1:{rude.getsockname()[1]}", "tiny")
        check = check_endpoint(HERE, target, connect_timeout=2.0)
    assert not check.healthy
