"""Of a group that failed, the rank whose log showed the first cause."""

from __future__ import annotations

from orchestrator.health.first_cause import RankLog, first_cause
from orchestrator.health.judge import RankKey, RankProblem
from orchestrator.runtime.containers import ContainerState
from orchestrator.runtime.log_lines import in_order

ASSERTION = "(Worker_PP1 pid=13) ERROR 12-01 15:28:58 [multiproc_executor.py:1063] AssertionError"
LOST = "RuntimeError: [../gloo/transport/tcp/pair.cc:538] Connection closed by peer"


def log(
    rank: int, *said: tuple[int, str], exit_code: int | None = None, error: str = ""
) -> RankLog:
    """What a rank said, each line with its second; with an exit code it ended."""
    host, name = f"h{rank}", f"orc-x-r0-n{rank}"
    key = RankKey(host, name, rank)
    times = [f"2026-12-01T15:28:{second:02}.000000001Z {line}" for second, line in said]
    state = None
    if exit_code is not None:
        state = ContainerState(host, "1", name, "exited", exit_code=exit_code, error=error)
    problem = RankProblem(key, "exited", state) if state else None
    return RankLog(key, tuple(in_order(name, times)), problem)


def guilty(*logs: RankLog) -> tuple[int, str]:
    found = first_cause(logs)
    assert found is not None
    return found.log.rank.rank, str(found.diagnosis)


def test_a_worker_that_runs_on_after_its_error_is_the_first_cause() -> None:
    """Seen with vLLM 0.32: the follower's worker raised, and the head ended for it with 0."""
    head = log(0, (59, "KeyError: 'cmpl-82ed41910d8345c8-0-a1edeaa4'"), exit_code=0)
    rank, text = guilty(head, log(1, (57, "INFO ready"), (58, ASSERTION)))
    assert rank == 1 and "AssertionError" in text


def test_a_worker_that_runs_and_complained_of_something_is_not() -> None:
    head = log(0, (59, "KeyError: 'cmpl-82ed'"), exit_code=0)
    rank, text = guilty(head, log(1, (20, "ERROR 12-01 15:28:20 [a.py:1] could not reach it")))
    assert rank == 0 and "KeyError" in text


def test_a_certain_cause_goes_before_the_loss_of_a_peer_on_whichever_rank() -> None:
    head = log(0, (10, LOST), exit_code=1)
    memory = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    assert guilty(head, log(1, (30, memory)))[0] == 1  # its clock is ahead
    assert guilty(head, log(1, (11, memory), exit_code=1))[0] == 1


def test_a_rank_that_was_killed_is_the_cause_of_what_its_peers_say() -> None:
    killed = log(1, (9, "INFO ready"), exit_code=137)
    rank, text = guilty(killed, log(0, (10, LOST)))
    assert rank == 1 and "SIGKILL" in text


def test_of_ranks_that_lost_each_other_the_first_by_time() -> None:
    assert guilty(log(0, (12, LOST), exit_code=1), log(1, (11, LOST), exit_code=1))[0] == 1


def test_what_docker_said_of_a_container_that_never_ran_counts() -> None:
    never = log(1, exit_code=127, error='exec: "vllm": executable file not found in $PATH')
    rank, text = guilty(never, log(0, (1, LOST)))
    assert rank == 1 and "no such program" in text


def test_logs_that_show_nothing_have_no_cause() -> None:
    assert first_cause([log(0, (1, "INFO ready"), exit_code=0), log(1)]) is None
