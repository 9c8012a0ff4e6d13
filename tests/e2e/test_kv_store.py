"""Two instances that share their KV cache through a real Mooncake store, over TCP."""

from __future__ import annotations

import time

import httpx
import pytest

from tests.e2e.conftest import TINY, Orc
from tests.e2e.deployed import (
    START_SECONDS,
    Deployed,
    complete,
    deployed,
    nothing_runs,
)
from tests.fleet import Fleet

pytestmark = [
    pytest.mark.usefixtures("kv_transfer"),
    pytest.mark.fleet,
    pytest.mark.vllm,
    pytest.mark.timeout(START_SECONDS, func_only=True),
]

ALONE = "DP rank 0, PP rank 0, PCP rank 0, TP rank 0, ETP rank 0, EP rank N/A"
PROMPT = "The quick brown fox jumps over the lazy dog. " * 3  # several blocks of 32 tokens


def selection(store: str) -> tuple[str, ...]:
    return (
        *(*TINY, "--strategy", "single_node_tp", "--set", "args.block-size=32"),
        *("--set", f"kv_offload=kv_store_{store}_mooncake", "--set", "instances=2"),
        *("--set", "kv_store.global_segment_size=64MB"),
        *("--set", "kv_store.local_buffer_size=64MB"),
    )


def from_store(url: str) -> float:
    """How many tokens an instance has taken out of the store."""
    return sum(
        float(line.rsplit(" ", 1)[1])
        for line in httpx.get(f"{url}/metrics", timeout=10).text.splitlines()
        if line.startswith("vllm:external_prefix_cache_hits_total{")
    )


def check_instances(one: Deployed) -> None:
    """Both answer alike, and the second has taken what the first computed out of the store."""
    first, second = (f"http://{host.address}:8000" for host in one.fleet.hosts)
    for host, container in (("node01", 0), ("node02", 1)):
        assert one.rank_lines(host, f"orc-{one.name}-r{container}-n0") == [ALONE]
    assert from_store(second) == 0
    # The store is written beside the answer, so the second may come too early: then once more.
    for number in range(5):
        prompt = f"{number} {PROMPT}"
        assert complete(first, prompt=prompt).status_code == 200
        time.sleep(1.0)
        assert complete(second, prompt=prompt).status_code == 200
        if from_store(second) >= 64:
            break
    else:
        pytest.fail(f"the second took {from_store(second)} tokens out of the store")
    assert complete(one.up.events()[-1]["data"]["router"]).status_code == 200
    assert one.status() == {-2: "healthy", -1: "healthy", 0: "healthy", 1: "healthy"}
    again = one.again()
    assert f"{one.name} is unchanged and healthy" in again.text


def test_instances_lend_their_memory_to_the_store(fleet: Fleet, orc: Orc) -> None:
    with deployed(fleet, orc, "mc", *selection("distributed")) as one:
        assert sorted(one.roles().values()) == ["head", "head", "kv_master", "router"]
        check_instances(one)
    assert nothing_runs(fleet)


def test_a_service_on_every_host_holds_the_store(fleet: Fleet, orc: Orc) -> None:
    with deployed(fleet, orc, "cs", *selection("centralized")) as one:
        assert sorted(one.roles().values()) == [
            *("head", "head", "kv_master", "kv_store", "kv_store", "router"),
        ]
        check_instances(one)
    assert nothing_runs(fleet)


def test_a_store_that_ends_is_known_at_once_with_its_reason(fleet: Fleet, orc: Orc) -> None:
    """Before any engine is started, which would load for minutes and then find no store."""
    words = (*selection("centralized"), "--name", "bad", "--image", fleet.image)
    up = orc("up", *words, "--set", "kv_store.global_segment_size=lots")
    assert up.status == 2
    assert "KV store failed: orc-bad-kv-store-n1 on node01: exited 1" in up.text
    assert "ValueError: could not convert string to float: 'lots'" in up.text
    assert "Start all ranks" not in up.text
    assert "KV store  failed" in orc("status", "bad").text
    assert orc("down", "bad").status == 0
    assert nothing_runs(fleet)
