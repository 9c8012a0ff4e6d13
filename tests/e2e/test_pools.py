"""Prefill and decode pools of several hosts and around a KV store: the real router and store before
a stand-in for vLLM, since so many engines do not fit a small machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import TINY, Orc, container_ids
from tests.e2e.deployed import complete
from tests.fleet import Fleet

pytestmark = pytest.mark.fleet

POOLS = (*TINY, "--strategy", "pd_cluster", "--name", "pools")


@pytest.fixture
def four(fleet_of: Callable[[int], Fleet]) -> Iterator[Fleet]:
    fleet = fleet_of(4)
    fleet.clear()
    yield fleet
    fleet.clear()


def started(events: list[dict[str, Any]]) -> list[str]:
    """What was started, and what was found well, in the order of the events."""
    words = ("started ", "answers on", "is healthy: ")
    return [
        event["message"].partition(": ")[0]
        for event in events
        if event["kind"] in ("changed", "ok") and any(word in event["message"] for word in words)
    ]


def test_a_pool_over_two_hosts_is_one_engine_behind_the_router(four: Fleet, tmp_path: Path) -> None:
    orc = Orc(four, tmp_path)
    sizes = ("--set", "pools.prefill=1", "--set", "pools.decode=2", "--image", four.fast_image)
    up = orc("up", *POOLS, *sizes, "--json")
    assert up.status == 0, up.text
    done = up.events()[-1]["data"]
    first, second = (host.address for host in four.hosts[:2])
    assert [one["url"] for one in done["endpoints"]] == [
        f"http://{first}:8001",
        f"http://{second}:8002",
    ]
    assert complete(done["router"]).json()["usage"]["completion_tokens"] == 4
    (status,) = orc("status", "pools", "--json").json()["deployments"]
    ranks = [(one["role"], one["rank"], one["host"]) for one in status["replicas"][1]["ranks"]]
    assert ranks == [("prefill", 0, "node01"), ("decode", 0, "node02"), ("decode", 1, "node03")]
    assert {group["health"] for group in status["replicas"]} == {"healthy"}
    assert "unchanged and healthy" in orc("up", *POOLS, *sizes).text
    assert orc("down", "pools", "--yes").status == 0
    assert container_ids(four) == {}


@pytest.mark.usefixtures("kv_transfer")
def test_a_kv_store_answers_before_the_pools_start_and_they_before_the_router(
    four: Fleet, tmp_path: Path
) -> None:
    orc = Orc(four, tmp_path)
    store = ("--set", "kv_offload=kv_store_distributed_mooncake", "--set", "instances=1")
    up = orc("up", *POOLS, "--nodes", "2", *store, "--image", four.fast_image, "--json")
    assert up.status == 0, up.text
    assert started(up.events()) == [
        "started orc-pools-kv-master",
        "orc-pools-kv-master answers on 50051, 9003",
        "started orc-pools-r0-n0-prefill",
        "started orc-pools-r0-n0-decode",
        "replica 0 rank 0 is healthy",
        "replica 0 rank 0 is healthy",
        "started orc-pools-router",
        "router rank 0 is healthy",
    ]
    assert complete(up.events()[-1]["data"]["router"]).status_code == 200
    assert orc("down", "pools", "--yes").status == 0
    assert container_ids(four) == {}
