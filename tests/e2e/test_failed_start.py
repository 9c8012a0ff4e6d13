"""Starts that fail: known in seconds, with the last lines and a cause.

With real vLLM, but for the hosts that drop off: there loading must not end meanwhile.
"""

from __future__ import annotations

import time

import pytest

from tests.e2e.conftest import TINY, Orc, container_ids, impatient, vllm_processes
from tests.fleet import Fleet

# Alone, since one of them says how long a thing may take.
pytestmark = [pytest.mark.fleet, pytest.mark.vllm, pytest.mark.alone]

WAITING = "TASK [Wait until every replica answers a completion]"


def selection(fleet: Fleet, image: str | None = None) -> tuple[str, ...]:
    return (
        *(*TINY, "--strategy", "multi_node_tp", "--nodes", "2", "--name", "bad"),
        *("--image", image or fleet.image),
    )


def loads_for_hours(fleet: Fleet) -> tuple[str, ...]:
    return (*selection(fleet, fleet.fast_image), "--set", "env.STANDIN_LOAD_SECONDS=3600")


def states(fleet: Fleet) -> dict[str, str]:
    return {c.name: c.state for host in fleet.hosts for c in fleet.containers(host)}


def test_a_wrong_flag_fails_with_the_last_lines_and_the_cause_and_stops_every_rank(
    fleet: Fleet, orc: Orc
) -> None:
    up = orc("up", *selection(fleet), "--set", "args.frobnicate=3")
    assert up.status == 2
    assert "cause: vLLM does not accept an argument" in up.text
    assert "--frobnicate" in up.text
    assert "|" in up.text and "usage: vllm" in up.text
    assert states(fleet) == {"orc-bad-r0-n0": "exited", "orc-bad-r0-n1": "exited"}
    logs = orc("logs", "bad")
    assert logs.status == 0 and "--frobnicate" in logs.text
    assert orc("status").status == 2
    assert orc("down").status == 0
    assert container_ids(fleet) == {}


def test_a_follower_that_dies_while_loading_is_known_within_five_seconds(
    fleet: Fleet, orc: Orc
) -> None:
    up = orc.start("up", *selection(fleet))
    orc.wait_for_output(WAITING)
    time.sleep(3)
    fleet.host("node02").docker("kill", "--signal", "KILL", "orc-bad-r0-n1")
    begun = time.monotonic()
    orc.wait_for_output("replica 0 failed: rank 1 on node02: exited 137 (SIGKILL)", 10)
    assert time.monotonic() - begun < 5
    assert up.wait(90) == 2
    assert "stopped every rank of replica 0" in orc.output()
    assert states(fleet) == {"orc-bad-r0-n0": "exited", "orc-bad-r0-n1": "exited"}
    assert vllm_processes(fleet) == []


def test_the_next_up_takes_away_what_failed_and_keep_failed_leaves_the_others(
    fleet: Fleet, orc: Orc
) -> None:
    up = orc.start("up", *selection(fleet), "--keep-failed")
    orc.wait_for_output(WAITING)
    assert "replica 0 is restarted whole" in orc.output()
    time.sleep(3)
    fleet.host("node02").docker("kill", "--signal", "KILL", "orc-bad-r0-n1")
    assert up.wait(30) == 2
    assert states(fleet) == {"orc-bad-r0-n0": "running", "orc-bad-r0-n1": "exited"}
    assert orc("down").status == 0
    assert vllm_processes(fleet) == []


def test_a_start_that_takes_too_long_fails_at_its_deadline(fleet: Fleet, orc: Orc) -> None:
    up = orc("up", *selection(fleet), "--timeout", "6s")
    assert up.status == 2
    assert "not healthy after 6 s: nothing answers at http://" in up.text
    assert "exited" in states(fleet).values() and "running" not in states(fleet).values()
    assert orc("down").status == 0


def test_a_host_that_drops_off_while_loading_is_waited_for(fleet: Fleet, orc: Orc) -> None:
    orc = impatient(orc)
    up = orc.start("up", *loads_for_hours(fleet))
    orc.wait_for_output(WAITING)
    time.sleep(2)
    fleet.link_down("node02")
    orc.wait_for_output("that is no dead rank", 30)
    assert up.poll() is None
    fleet.link_up("node02")
    orc.wait_for_output("[node02] can be reached again", 60)
    up.send_signal(2)
    assert up.wait(15) == 130
    assert orc("down").status == 0


def test_what_is_not_known_of_a_host_that_dropped_off_is_not_told_as_stopped(
    fleet: Fleet, orc: Orc
) -> None:
    orc = impatient(orc)
    up = orc.start("up", *loads_for_hours(fleet))
    orc.wait_for_output(WAITING)
    time.sleep(1)
    fleet.link_down("node02")
    fleet.host("node01").docker("kill", "--signal", "KILL", "orc-bad-r0-n0")
    assert up.wait(90) == 2
    said = orc.output()
    fleet.link_up("node02")
    assert "replica 0 failed: rank 0 on node01: exited 137 (SIGKILL)" in said
    assert "warning: [node02] unknown whether what runs of replica 0 there has stopped" in said
    assert "what runs of replica 0 is stopped on the other hosts" in said
    assert "every rank" not in said.replace("TASK [Start all ranks of a replica together]", "")
    assert orc("down").status == 0
    assert container_ids(fleet) == {}
    assert vllm_processes(fleet) == []
