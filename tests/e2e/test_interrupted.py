"""Pipeline parallel over two hosts, and `orc up` killed or interrupted while vLLM loads."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.e2e.conftest import TINY, Orc, container_ids, vllm_processes
from tests.fleet import Fleet

pytestmark = [pytest.mark.fleet, pytest.mark.vllm]

WAITING = "TASK [Wait until every replica answers a completion]"


def selection(fleet: Fleet) -> tuple[str, ...]:
    return (
        *(*TINY, "--strategy", "multi_node_tp_pp", "--nodes", "2", "--name", "pp"),
        *("--image", fleet.image),
    )


def test_a_killed_up_leaves_what_the_next_up_takes_over(
    fleet: Fleet, orc: Orc, tmp_path: Path
) -> None:
    up = orc.start("up", *selection(fleet))
    orc.wait_for_output(WAITING)
    up.send_signal(signal.SIGKILL)
    up.wait(10)
    before = container_ids(fleet)
    assert sorted(before) == ["orc-pp-r0-n0", "orc-pp-r0-n1"]

    status = orc("status", directory=tmp_path)
    assert status.status == 2
    assert "replica 0  starting" in status.text

    again = orc("up", *selection(fleet), directory=tmp_path)
    assert again.status == 0, again.text
    assert "replica 0 runs as planned" in again.text
    assert container_ids(fleet) == before

    probe = orc("probe", "pp", directory=tmp_path)
    assert probe.status == 0 and "said: " in probe.text
    assert orc("status", directory=tmp_path).status == 0
    logs = "".join(orc("logs", "--rank", str(r), "--tail", "1000").out for r in (0, 1))
    assert "PP rank 0" in logs and "PP rank 1" in logs

    down = orc("down", "--yes", directory=tmp_path)
    assert down.status == 0
    assert container_ids(fleet) == {} and vllm_processes(fleet) == []


def test_an_interrupted_up_says_what_is_left_and_down_removes_it_from_elsewhere(
    fleet: Fleet, orc: Orc, tmp_path: Path
) -> None:
    up = orc.start("up", *selection(fleet))
    orc.wait_for_output(WAITING)
    time.sleep(2)
    up.send_signal(signal.SIGINT)
    assert up.wait(15) == 130
    said = orc.output()
    assert "orc status pp" in said and "orc down pp" in said
    assert "Traceback" not in said
    assert sorted(container_ids(fleet)) == ["orc-pp-r0-n0", "orc-pp-r0-n1"]

    status = orc("status", directory=tmp_path)
    assert status.status == 2 and "starting" in status.text
    down = orc("down", directory=tmp_path)
    assert down.status == 0, down.text
    assert container_ids(fleet) == {} and vllm_processes(fleet) == []


def test_an_up_killed_between_two_ranks_is_restarted_whole_by_the_next(
    fleet: Fleet, orc: Orc, tmp_path: Path
) -> None:
    """As if it had been killed when one of the two `docker run` had been done."""
    up = orc.start("up", *selection(fleet))
    orc.wait_for_output(WAITING)
    up.send_signal(signal.SIGKILL)
    up.wait(10)
    fleet.host("node02").docker("rm", "--force", "orc-pp-r0-n1")
    status = orc("status", directory=tmp_path)
    assert status.status == 2 and "missing" in status.text
    old = container_ids(fleet)["orc-pp-r0-n0"]
    next_up = orc.start("up", *selection(fleet))
    orc.wait_for_output(WAITING)
    next_up.send_signal(signal.SIGINT)
    assert next_up.wait(15) == 130
    assert "replica 0 is restarted whole (rank 1 is missing on node02)" in orc.output()
    ids = container_ids(fleet)
    assert sorted(ids) == ["orc-pp-r0-n0", "orc-pp-r0-n1"] and ids["orc-pp-r0-n0"] != old
    assert orc("down", directory=tmp_path).status == 0
    assert vllm_processes(fleet) == []
