"""Replicas behind a real vllm-router, and a second deployment on the same hosts."""

from __future__ import annotations

import time

import httpx
import pytest

from tests.e2e.conftest import TINY, Orc, container_ids
from tests.e2e.deployed import START_SECONDS, complete, deployed, nothing_runs
from tests.fleet import Fleet

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.vllm,
    pytest.mark.timeout(2 * START_SECONDS, func_only=True),
]

ONE = (*TINY, "--strategy", "single_node_tp")
REPLICAS = (*ONE, "--replicas", "2")
BEHIND_ROUTER = ("--set", "router.policy=round_robin")


def workers(router: str) -> dict[str, bool]:
    """Which endpoints a router sends to, and whether it finds them healthy."""
    found = httpx.get(f"{router}/workers", timeout=10).json()["workers"]
    return {worker["url"]: worker["is_healthy"] for worker in found}


def test_two_replicas_behind_a_router_beside_another_deployment(fleet: Fleet, orc: Orc) -> None:
    with deployed(fleet, orc, "rt", *REPLICAS, *BEHIND_ROUTER) as first:
        router = f"http://{fleet.hosts[0].address}:30000"
        assert first.up.events()[-1]["data"]["router"] == router
        endpoints = [f"http://{host.address}:8000" for host in fleet.hosts]
        assert workers(router) == dict.fromkeys(endpoints, True)
        before = [requests(url) for url in endpoints]
        for _ in range(4):
            assert complete(router).status_code == 200
        assert [requests(url) - b for url, b in zip(endpoints, before, strict=True)] == [2, 2]
        assert first.status() == {-2: "healthy", 0: "healthy", 1: "healthy"}

        ids = container_ids(fleet)
        assert "rt is unchanged and healthy" in first.again().text
        assert container_ids(fleet) == ids

        _a_dead_router_comes_back_alone(first.name, fleet, orc, first.words)
        assert complete(router).status_code == 200

        shown = orc("plan", *ONE, *BEHIND_ROUTER, "--name", "rt2", "--gather-facts", "--json")
        with deployed(fleet, orc, "rt2", *ONE, *BEHIND_ROUTER) as second:
            other = f"http://{fleet.hosts[0].address}:8001"
            data = second.up.events()[-1]["data"]
            assert [endpoint["url"] for endpoint in data["endpoints"]] == [other]
            assert data["router"] == f"http://{fleet.hosts[0].address}:30001"
            assert [endpoint["url"] for endpoint in shown.json()["endpoints"]] == [other]
            assert shown.json()["router"]["ports"]["api"] == 30001
            for url in (*endpoints, router, other, data["router"]):
                assert complete(url).status_code == 200
            assert workers(data["router"]) == {other: True}
            probe = orc("probe", "--json").json()["endpoints"]
            assert len(probe) == 5 and all(endpoint["healthy"] for endpoint in probe)
        assert complete(router).status_code == 200  # the first is still there
    assert nothing_runs(fleet)


def test_a_router_is_well_while_one_of_its_workers_is_not(fleet: Fleet, orc: Orc) -> None:
    """Its /health is 503 then, and yet it serves; a stand-in is vLLM enough for it."""
    words = (*REPLICAS, *BEHIND_ROUTER, "--name", "half", "--image", fleet.fast_image)
    assert orc("up", *words).status == 0
    router = f"http://{fleet.hosts[0].address}:30000"
    fleet.host("node02").docker("kill", "orc-half-r1-n0")
    deadline = time.monotonic() + 120
    while httpx.get(f"{router}/health", timeout=30).status_code != 503:
        assert time.monotonic() < deadline, "the router does not see that a worker is gone"
        time.sleep(1)
    status = orc("status", "half", "--json")
    (deployment,) = status.json()["deployments"]
    found = {group["replica"]: group["health"] for group in deployment["replicas"]}
    assert found == {-2: "healthy", 0: "healthy", 1: "failed"}
    assert status.status == 2
    for _ in range(8):  # some of them fail, and the router shuts the worker out for it
        httpx.post(f"{router}/v1/completions", json={"model": "x", "prompt": "x"}, timeout=30)
    assert orc("up", *words).status == 0
    assert list(workers(router).values()) == [True, True]
    rolled = orc("roll", "half", "--yes")  # which needs that each can stand in for the other
    assert rolled.status == 0, rolled.text
    assert orc("down", "half", "--yes").status == 0
    assert nothing_runs(fleet)


def requests(url: str) -> float:
    """How many requests an endpoint has finished."""
    return sum(
        float(line.rsplit(" ", 1)[1])
        for line in httpx.get(f"{url}/metrics", timeout=10).text.splitlines()
        if line.startswith("vllm:request_success_total{")
    )


def _a_dead_router_comes_back_alone(
    name: str, fleet: Fleet, orc: Orc, words: tuple[str, ...]
) -> None:
    """The engines, which took long to load, are not touched for it."""
    before = container_ids(fleet)
    container = f"orc-{name}-router"
    fleet.host("node01").docker("kill", container)
    status = orc("status", name)
    assert status.status == 2 and "router  failed" in status.text
    again = orc("up", *words, timeout=START_SECONDS)
    assert again.status == 0, again.text
    after = container_ids(fleet)
    assert {n for n in after if after[n] != before.get(n)} == {container}
