"""One data-parallel rank over several hosts: TP 2 x DP 2 over four, with real vLLM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.e2e.conftest import Orc
from tests.e2e.deployed import START_SECONDS, deployed, nothing_runs
from tests.fleet import Fleet

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.vllm,
    pytest.mark.timeout(START_SECONDS, func_only=True),
]


@pytest.fixture
def four(fleet_of: Callable[[int], Fleet]) -> Iterator[Fleet]:
    fleet = fleet_of(4)
    fleet.clear()
    yield fleet
    fleet.clear()


def test_two_data_parallel_ranks_of_two_hosts_each_become_ready(
    four: Fleet, tmp_path: Path
) -> None:
    """The CPU build lacks `all_gatherv`, so that a completion fails: readiness is what shows."""
    orc = Orc(four, tmp_path)
    selection = ("--recipe", "orc/tiny-qwen3-moe", "--strategy", "multi_node_dep", "--nodes", "4")
    sizes = ("--set", "parallel.tensor=2", "--set", "health.completion=false")
    server = ("--set", "args.api-server-count=1")  # not one for each rank: it starts faster
    with deployed(four, orc, "nest", *selection, *sizes, *server) as nest:
        said = [nest.rank_lines(f"node0{i + 1}", f"orc-nest-r0-n{i}") for i in range(4)]
        assert said == [
            [f"DP rank {dp}, PP rank 0, PCP rank 0, TP rank {tp}, ETP rank {tp}, EP rank {ep}"]
            for dp, tp, ep in ((0, 0, 0), (0, 1, 1), (1, 0, 2), (1, 1, 3))
        ]
        url = f"http://{four.hosts[0].address}:8000"
        assert [e["url"] for e in nest.up.events()[-1]["data"]["endpoints"]] == [url]
        models = httpx.get(f"{url}/v1/models", timeout=10).json()["data"]
        assert [model["id"] for model in models] == ["/models/tiny-qwen3-moe"]
        assert sorted(nest.roles().values()) == ["head", "worker", "worker", "worker"]
    assert nothing_runs(four)
