"""What is told of a failed group: hosts with a docker of a few lines, and one that is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator import Inventory
from orchestrator.health.failure import explain_failure
from orchestrator.health.judge import RankKey, RankProblem, Verdict
from orchestrator.health.watch import Group
from orchestrator.runtime.containers import ContainerState
from orchestrator.secret import Secret
from orchestrator.transport.pool import ConnectionPool
from orchestrator.transport.ssh_config import SshOptions

HEAD, WORKER, GONE = (RankKey(f"h{rank}", f"orc-x-r0-n{rank}", rank) for rank in range(3))
INVENTORY = """
all:
  hosts:
    h0: {ansible_connection: local}
    h1: {ansible_connection: local}
    h2: {ansible_host: 127.0.0.1, ansible_ssh_private_key_file: /no/such/key}
"""


@pytest.fixture
def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ConnectionPool:
    docker = tmp_path / "docker"
    slow = f'[ ! -e "{tmp_path}/$name.slow" ] || sleep 4'
    docker.write_text(f'#!/bin/sh\nfor name; do :; done\n{slow}\nexec cat "{tmp_path}/$name"\n')
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    path = tmp_path / "hosts.yml"
    path.write_text(INVENTORY)
    return ConnectionPool(Inventory.load(path).hosts.values(), SshOptions())


def say(tmp_path: Path, rank: RankKey, *lines: str) -> None:
    said = "".join(f"2026-12-01T15:28:{i:02}.5Z {line}\n" for i, line in enumerate(lines))
    (tmp_path / rank.name).write_text(said)


def failed(rank: RankKey) -> Verdict:
    state = ContainerState(rank.host, "1", rank.name, "exited", exit_code=1)
    problem = RankProblem(rank, "exited 1", state)
    return Verdict("failed", f"rank {rank.rank} on {rank.host}: exited 1", (problem,))


def test_the_rank_that_showed_the_cause_is_told_with_its_lines(
    pool: ConnectionPool, tmp_path: Path
) -> None:
    say(tmp_path, HEAD, "INFO begins", "", "RuntimeError: Connection closed by peer")
    say(
        tmp_path,
        WORKER,
        "INFO with hunter22",
        "ValueError: No available memory for the cache blocks",
    )
    secrets = [Secret("hunter22")]
    report = explain_failure(pool, Group(0, (HEAD, WORKER), ()), failed(HEAD), secrets)
    assert report.cause and report.cause.startswith("rank 1 on h1: the weights leave no memory")
    assert [(rank.rank, rank.reason) for rank in report.ranks] == [
        (HEAD, "exited 1"),
        (WORKER, "runs, and showed the first error"),
    ]
    assert "hunter22" not in report.text() and "INFO with" in report.text()
    assert report.to_dict()["cause"] == report.cause


def test_a_log_that_cannot_be_read_is_said_and_is_no_cause(
    pool: ConnectionPool, tmp_path: Path
) -> None:
    say(tmp_path, HEAD, "KeyError: 'cmpl-1'")
    report = explain_failure(pool, Group(0, (HEAD, GONE), ()), failed(HEAD))
    assert report.cause == "its last error (KeyError: 'cmpl-1'). The log shows more: orc logs."
    assert len(report.ranks) == 1  # the other is not known to have failed
    report = explain_failure(pool, Group(0, (HEAD, GONE), ()), failed(GONE))
    assert "(its log cannot be read: " in report.text()
    assert report.cause and "cmpl-1" in report.cause


def test_what_libraries_say_at_exit_does_not_hide_the_rest(
    pool: ConnectionPool, tmp_path: Path
) -> None:
    leaks = ["nanobind: leaked 2 types!", ' - leaked type "a.b"', " - ... skipped remainder"] * 20
    say(tmp_path, HEAD, "KeyError: 'cmpl-1'", *leaks)
    (rank,) = explain_failure(pool, Group(0, (HEAD,), ()), failed(HEAD)).ranks
    assert rank.lines == ("KeyError: 'cmpl-1'",)


def test_a_host_that_hangs_holds_nothing_up(pool: ConnectionPool, tmp_path: Path) -> None:
    say(tmp_path, HEAD, "KeyError: 'cmpl-1'")
    say(tmp_path, WORKER, "ValueError: No available memory for the cache blocks")
    (tmp_path / f"{WORKER.name}.slow").touch()
    report = explain_failure(pool, Group(0, (HEAD, WORKER), ()), failed(HEAD))
    assert report.cause and "cmpl-1" in report.cause and len(report.ranks) == 1
    report = explain_failure(pool, Group(0, (HEAD, WORKER), ()), failed(WORKER))
    assert report.cause and "no memory" in report.cause  # whoever ended is waited for
