"""Two replicas of one node each, with real vLLM: each has its own fate."""

from __future__ import annotations

import time

import pytest

from tests.e2e.conftest import TINY, Orc, container_ids, vllm_processes
from tests.fleet import Fleet

# Alone, since it says how long a thing may take.
pytestmark = [pytest.mark.fleet, pytest.mark.vllm, pytest.mark.alone]


def test_two_replicas_from_start_to_end(fleet: Fleet, orc: Orc) -> None:
    selection = (
        *(*TINY, "--strategy", "single_node_tp", "--replicas", "2", "--name", "two"),
        *("--image", fleet.image),
    )
    up = orc("up", *selection)
    assert up.status == 0, up.text
    for host in fleet.hosts:
        assert f"http://{host.address}:8000" in up.text
    probe = orc("probe", "--json")
    assert probe.status == 0
    assert [e["replica"] for e in probe.json()["endpoints"] if e["healthy"]] == [0, 1]
    assert orc("status").status == 0

    before = container_ids(fleet)
    runs = [orc("up", *selection) for _ in range(2)]
    assert all("two is unchanged and healthy" in again.text for again in runs)
    assert min(again.seconds for again in runs) < 3.0
    assert container_ids(fleet) == before

    fleet.host("node02").docker("kill", "--signal", "KILL", "orc-two-r1-n0")
    begun = time.monotonic()
    status = orc("status")
    assert time.monotonic() - begun < 10
    assert status.status == 2
    assert "replica 0  healthy" in status.text
    assert "replica 1  failed: rank 0 on node02: exited 137 (SIGKILL)" in status.text

    mended = orc("up", *selection)
    assert mended.status == 0, mended.text
    after = container_ids(fleet)
    assert after["orc-two-r0-n0"] == before["orc-two-r0-n0"]
    assert after["orc-two-r1-n0"] != before["orc-two-r1-n0"]

    down = orc("down")
    assert down.status == 0, down.text
    assert container_ids(fleet) == {} and vllm_processes(fleet) == []
