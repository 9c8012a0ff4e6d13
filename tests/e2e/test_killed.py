"""orc itself killed with SIGKILL at random moments of up, roll and down: nothing is lost.

With the stand-in for vLLM. Each time `orc status` tells what docker tells, the next `orc up` or
`orc down` finishes the work, and nothing runs that is not labelled. `ORC_KILLS` is how many
moments (a few by default; `make test-kills` takes 50), `ORC_SEED` which ones.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.e2e.conftest import TINY, Orc, container_ids, vllm_processes
from tests.e2e.deployed import complete
from tests.fleet import Fleet

SEED = int(os.environ.get("ORC_SEED") or random.randrange(10**6))
SECONDS = {"up": 5.0, "roll": 9.0, "down": 3.0}  # about how long each takes


@pytest.fixture(autouse=True)
def clean(fleet: Fleet) -> Iterator[None]:
    fleet.clear()
    yield
    fleet.clear()


@pytest.mark.timeout(3000)
def test_a_kill_at_any_moment_loses_nothing(fleet: Fleet, orc: Orc) -> None:
    kill_at_random(fleet, orc, int(os.environ.get("ORC_KILLS") or 6))


def kill_at_random(fleet: Fleet, orc: Orc, times: int) -> None:
    moments = random.Random(SEED)
    words = (
        *(*TINY, "--name", "killed", "--strategy", "multi_node_tp", "--nodes", "2"),
        *("--image", fleet.fast_image),
    )
    assert orc("up", *words).status == 0
    mark = 0
    for turn in range(times):
        verb = ("up", "roll", "down")[turn % 3]
        if verb == "up" and turn:
            assert orc("down", "killed", "--yes").status == 0
        mark += verb == "roll"
        wanted = (*words, "--set", f"env.MARK={mark}")
        command = ("down", "killed", "--yes") if verb == "down" else (verb, *wanted)
        after = moments.uniform(0.2, SECONDS[verb])
        told = f"seed {SEED}, turn {turn}: {verb} killed after {after:.2f} s"
        run_and_kill(orc, command, after)
        assert_status_tells_the_truth(fleet, orc, told)
        if moments.random() < 0.3:
            down = orc("down", "killed", "--yes")
            assert down.status == 0, f"{told}\n{down.text}"
            assert container_ids(fleet) == {}, told
            assert vllm_processes(fleet) == [], told
        else:
            up = orc("up", *wanted, "--replace")
            assert up.status == 0, f"{told}\n{up.text}"
        up = orc("up", *wanted)
        assert up.status == 0, f"{told}\n{up.text}"
        assert complete(f"http://{fleet.host('node01').addresses[0]}:8000").status_code == 200, told
        assert_all_is_labelled(fleet, told)


def run_and_kill(orc: Orc, command: tuple[str, ...], after: float) -> None:
    process = orc.start(*command)
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
    time.sleep(0.2)  # what it began on the hosts ends with its connection, or goes on


def assert_status_tells_the_truth(fleet: Fleet, orc: Orc, told: str) -> None:
    """What `orc status` says of the ranks is what docker says, once nothing moves any more."""
    for _ in range(3):
        before = real(fleet)
        status = orc("status", "--json")
        if real(fleet) == before:
            break
    document = status.json()
    said = {
        (rank["host"], rank["role"], rank["rank"]): rank["state"] == "running"
        for deployment in document["deployments"]
        for replica in deployment["replicas"]
        for rank in replica["ranks"]
        if not rank["state"].startswith("missing")
    }
    assert said == before, f"{told}\n{status.text}"
    whole = len(before) == 2 and all(before.values())
    if document["exit_status"] == 0 and before:
        assert whole, f"{told}\n{status.text}"


def real(fleet: Fleet) -> dict[tuple[str, str, int], bool]:
    """Whether each rank runs, by docker itself; a rank that was put aside where it is all there
    is of the replica."""
    running: dict[tuple[str, str, int], bool] = {}
    aside: dict[tuple[str, str, int], bool] = {}
    for host in fleet.hosts:
        for container in fleet.containers(host):
            labels = container.labels
            place = (host.name, labels["orc.role"], int(labels["orc.rank"]))
            kept = container.name.endswith(("-before", "-after"))
            (aside if kept else running)[place] = container.state == "running"
    return running or aside


def assert_all_is_labelled(fleet: Fleet, told: str) -> None:
    for host in fleet.hosts:
        for container in fleet.containers(host):
            assert "orc.deployment" in container.labels, f"{told}: {container.name}"
