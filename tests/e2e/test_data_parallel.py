"""Data parallel over hosts with real vLLM: one endpoint for all ranks, or one for each host."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.e2e.conftest import TINY, Orc
from tests.e2e.deployed import START_SECONDS, complete, deployed, nothing_runs
from tests.fleet import Fleet

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.vllm,
    pytest.mark.timeout(START_SECONDS, func_only=True),
]

MOE = ("--recipe", "orc/tiny-qwen3-moe")
ALONE = "DP rank 0, PP rank 0, PCP rank 0, TP rank 0, ETP rank 0, EP rank N/A"


@pytest.fixture
def two_gpus(fleet: Fleet, tmp_path: Path) -> tuple[str, ...]:
    """The fleet's inventory with two GPUs on each host."""
    more = tmp_path / "two_gpus.yml"
    more.write_text("all:\n  vars:\n    orc_gpus: [0, 1]\n")
    return ("-i", str(fleet.inventory), "-i", str(more))


def served_by(url: str) -> dict[str, float]:
    """How many requests each engine behind an endpoint has finished."""
    served: dict[str, float] = {}
    for line in httpx.get(f"{url}/metrics", timeout=10).text.splitlines():
        if line.startswith("vllm:request_success_total{"):
            engine = line.partition('engine="')[2].partition('"')[0]
            served[engine] = served.get(engine, 0) + float(line.rsplit(" ", 1)[1])
    return served


def test_two_ranks_behind_one_endpoint(fleet: Fleet, orc: Orc) -> None:
    selection = (*TINY, "--strategy", "multi_node_tp_dp", "--nodes", "2")
    # A headless node refuses the head's own --api-server-count.
    one_server = ("--set", "load_balancing=internal", "--set", "args.api-server-count=1")
    with deployed(fleet, orc, "dp", *selection, *one_server) as dp:
        url = f"http://{fleet.hosts[0].address}:8000"
        assert [endpoint["url"] for endpoint in dp.up.events()[-1]["data"]["endpoints"]] == [url]
        # The engines of a dense model are process groups of their own, and know no other.
        assert dp.rank_lines("node01", "orc-dp-r0-n0") == [ALONE]
        assert dp.rank_lines("node02", "orc-dp-r0-n1") == [ALONE]
        assert "EngineCore_DP0 " in dp.log("node01", "orc-dp-r0-n0")
        assert "EngineCore_DP1 " in dp.log("node02", "orc-dp-r0-n1")
        before = served_by(url)
        assert set(before) == {"0", "1"} and all(before.values())  # asked by `orc up`
        for rank in ("0", "1"):
            assert complete(url, **{"X-data-parallel-rank": rank}).status_code == 200
        after = served_by(url)
        assert {engine: after[engine] - before.get(engine, 0) for engine in after} == {
            "0": 1,
            "1": 1,
        }
        assert dp.status() == {0: "healthy"}
        asked = served_by(url)
        assert all(asked[engine] > after[engine] for engine in after)
        (probed,) = orc("probe", "dp", "--json").json()["endpoints"]
        assert probed["data_ranks"] == [0, 1] and probed["healthy"]
        probed_too = served_by(url)
        assert {engine: probed_too[engine] - asked[engine] for engine in asked} == {"0": 1, "1": 1}
        assert "dp is unchanged and healthy" in dp.again().text
    assert nothing_runs(fleet)


def test_two_ranks_on_each_of_two_hosts_that_all_answer(
    fleet: Fleet, orc: Orc, two_gpus: tuple[str, ...]
) -> None:
    selection = (*TINY, "--strategy", "multi_node_tp_dp", "--nodes", "2", *two_gpus)
    hybrid = ("--set", "load_balancing=hybrid", "--set", "parallel.tensor=1")
    with deployed(fleet, orc, "hy", *selection, *hybrid, "--set", "args.api-server-count=1") as hy:
        for host, container in (("node01", "orc-hy-r0-n0"), ("node02", "orc-hy-r0-n1")):
            assert hy.rank_lines(host, container) == [ALONE, ALONE]
        log = {
            host.name: hy.log(host.name, f"orc-hy-r0-n{i}") for i, host in enumerate(fleet.hosts)
        }
        for rank, host in enumerate(("node01", "node01", "node02", "node02")):
            assert f"EngineCore_DP{rank} " in log[host]
        router = hy.up.events()[-1]["data"]["router"]
        urls = [f"http://{host.address}:8000" for host in fleet.hosts]
        for url in urls:
            served = served_by(url)
            assert len(served) == 2 and all(served.values())  # each rank was asked by `orc up`
        for url in (*urls, router):
            assert complete(url).status_code == 200
        assert hy.status() == {-2: "healthy", 0: "healthy"}
    assert nothing_runs(fleet)


def test_a_process_for_each_rank_becomes_ready_on_both(fleet: Fleet, orc: Orc) -> None:
    """External load balancing; the CPU build lacks `all_gatherv`, so readiness is what shows."""
    selection = (*MOE, "--strategy", "multi_node_dep", "--nodes", "2")
    external = ("--set", "load_balancing=external", "--set", "health.completion=false")
    with deployed(fleet, orc, "ext", *selection, *external) as ext:
        ranks = "DP rank {0}, PP rank 0, PCP rank 0, TP rank 0, ETP rank 0, EP rank {0}"
        assert ext.rank_lines("node01", "orc-ext-r0-n0") == [ranks.format(0)]
        assert ext.rank_lines("node02", "orc-ext-r0-n1") == [ranks.format(1)]
        router = ext.up.events()[-1]["data"]["router"]
        for url in (*(f"http://{host.address}:8000" for host in fleet.hosts), router):
            models = httpx.get(f"{url}/v1/models", timeout=10).json()["data"]
            assert [model["id"] for model in models] == ["/models/tiny-qwen3-moe"]
    assert nothing_runs(fleet)


def test_expert_parallel_over_two_hosts_becomes_ready_on_both(fleet: Fleet, orc: Orc) -> None:
    """The CPU build lacks `all_gatherv`, so that a completion fails: readiness is what shows."""
    selection = (*MOE, "--strategy", "multi_node_dep", "--nodes", "2")
    with deployed(fleet, orc, "dep", *selection, "--set", "health.completion=false") as dep:
        ranks = "DP rank {0}, PP rank 0, PCP rank 0, TP rank 0, ETP rank 0, EP rank {0}"
        assert dep.rank_lines("node01", "orc-dep-r0-n0") == [ranks.format(0)]
        assert dep.rank_lines("node02", "orc-dep-r0-n1") == [ranks.format(1)]
        router = dep.up.events()[-1]["data"]["router"]
        for url in (*(f"http://{host.address}:8000" for host in fleet.hosts), router):
            models = httpx.get(f"{url}/v1/models", timeout=10).json()["data"]
            assert [model["id"] for model in models] == ["/models/tiny-qwen3-moe"]
        assert sorted(dep.roles().values()) == ["head", "router", "worker"]
    assert nothing_runs(fleet)
