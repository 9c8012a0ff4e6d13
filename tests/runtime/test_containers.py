"""What is read out of one look at a host."""

from __future__ import annotations

import pytest

from orchestrator.runtime.containers import (
    ContainerState,
    parse_log_tails,
    parse_observation,
)
from tests.runtime import recorded

NOW = "1796061876.500000000"  # 2026-11-30T18:04:36.5Z


def look(*lines: str) -> tuple[ContainerState, ...]:
    seen = parse_observation("node02", 0, "\n".join((NOW, *lines)) + "\n")
    assert seen.error is None
    return seen.containers


def test_a_running_container_is_read_with_its_labels_and_its_age() -> None:
    (state,) = look(recorded.RUNNING)
    assert state.name == "orc-x-r0-n1"
    assert (state.host, state.deployment, state.replica, state.rank) == ("node02", "x", 0, 1)
    assert (state.role, state.nodes, state.spec) == ("worker", 2, "abc")
    assert (state.endpoint, state.model) == ("http://10.1.0.11:8000", "m")
    assert (state.running, state.pid) == (True, 4711)
    assert state.command == ("vllm", "serve", "m")
    assert state.up_seconds == pytest.approx(10.097, abs=0.01)
    assert state.ended_seconds_ago is None


def test_a_killed_container_says_why() -> None:
    (state,) = look(recorded.KILLED)
    assert not state.running
    assert state.ending() == "exited 137 (SIGKILL, out of memory)"
    assert state.ended_seconds_ago == pytest.approx(7.09, abs=0.01)
    assert state.up_seconds is None


@pytest.mark.parametrize(
    ("status", "code", "oom", "error", "said"),
    [
        ("exited", 1, False, "", "exited 1"),
        ("exited", 0, False, "", "exited 0 (an exit of a rank is a failure, whatever its status)"),
        ("exited", 139, False, "", "exited 139 (SIGSEGV)"),
        ("exited", 143, False, "", "exited 143 (SIGTERM)"),
        ("exited", 255, False, "", "exited 255"),
        ("created", 127, False, "no such file", "never started: no such file"),
        ("paused", 0, False, "", "paused"),
    ],
)
def test_every_ending_is_put_in_words(
    status: str, code: int, oom: bool, error: str, said: str
) -> None:
    state = ContainerState("h", "1", "n", status, exit_code=code, oom_killed=oom, error=error)
    assert state.ending() == said


def test_a_container_without_labels_is_nobodys() -> None:
    (state,) = look(recorded.UNLABELLED)
    assert state.deployment is None
    assert (state.replica, state.endpoint) == (0, None)


def test_a_container_reported_twice_is_one() -> None:
    assert len(look(recorded.RUNNING, recorded.RUNNING)) == 1


def test_a_container_that_is_gone_meanwhile_is_no_error() -> None:
    seen = parse_observation("h", 0, NOW + "\n", recorded.NO_SUCH_CONTAINER)
    assert (seen.error, seen.containers) == (None, ())


def test_a_daemon_that_does_not_answer_is_an_error_and_not_an_empty_host() -> None:
    seen = parse_observation("h", 1, NOW + "\n", recorded.NO_DAEMON)
    assert seen.error == recorded.NO_DAEMON.strip()


def test_the_last_log_line_is_read_even_when_there_is_none_yet() -> None:
    text = f"{NOW}\n{recorded.RUNNING}\n@log orc-x-r0-n1\nLoading 3/8\n\n@log other\n\n"
    seen = parse_observation("h", 0, text)
    assert seen.last_lines == {"orc-x-r0-n1": "Loading 3/8", "other": ""}


def test_a_clock_without_nanoseconds_still_gives_ages() -> None:
    """busybox prints `%N` as it is."""
    seen = parse_observation("h", 0, f"1796061876.%N\n{recorded.KILLED}\n")
    assert seen.containers[0].ended_seconds_ago == pytest.approx(6.6, abs=0.1)


def test_log_tails_are_read_by_container() -> None:
    text = "@log a\none\ntwo\n\n@log b\n\n"
    assert parse_log_tails(text) == {"a": ["one", "two"], "b": []}
