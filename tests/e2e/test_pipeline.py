"""A pipeline whose stages hold different numbers of layers, with real vLLM."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import TINY, Orc
from tests.e2e.deployed import START_SECONDS, complete, deployed, nothing_runs
from tests.fleet import Fleet

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.vllm,
    pytest.mark.timeout(START_SECONDS, func_only=True),
]


def test_three_layers_on_one_host_and_one_on_the_other(fleet: Fleet, orc: Orc) -> None:
    selection = (*TINY, "--strategy", "multi_node_tp_pp", "--nodes", "2")
    uneven = (*selection, "--set", "layer_partition=[3,1]")
    plan = orc("plan", *uneven, "--json").json()
    assert [rank["layers"] for node in plan["nodes"] for rank in node["ranks"]] == [[0, 3], [3, 4]]
    with deployed(fleet, orc, "pp31", *uneven) as pp:
        for stage, host in enumerate(("node01", "node02")):
            container = f"orc-pp31-r0-n{stage}"
            assert pp.rank_lines(host, container) == [
                f"DP rank 0, PP rank {stage}, PCP rank 0, TP rank 0, ETP rank 0, EP rank N/A"
            ]
            partition = ("exec", container, "printenv", "VLLM_PP_LAYER_PARTITION")
            assert fleet.host(host).docker(*partition) == "3,1"
        answer = complete(f"http://{fleet.hosts[0].address}:8000")
        assert answer.status_code == 200 and answer.json()["usage"]["completion_tokens"] == 4
        assert pp.status() == {0: "healthy"}
    assert nothing_runs(fleet)


def test_a_worker_that_raised_an_error_and_runs_on_is_told_as_the_cause(
    fleet: Fleet, orc: Orc
) -> None:
    """Without a warm-up vLLM 0.32 has no buffers between stages: the first request makes the second
    stage's worker raise, and the head ends for it, with 0 and another error."""
    selection = (*TINY, "--strategy", "multi_node_tp_pp", "--nodes", "2")
    words = (*selection, "--name", "bare", "--image", fleet.image)
    up = orc("up", *words, "--set", "env.VLLM_CPU_CI_ENV=1", timeout=START_SECONDS)
    assert up.status == 2, up.text
    assert "replica 0 failed: rank 0 on node01: exited 0" in up.text
    assert "cause: rank 1 on node02: its last error (AssertionError at `assert self." in up.text
    assert "rank 1 on node02: runs, and showed the first error" in up.text
    assert "nanobind" not in up.text  # what its libraries say at every exit hides the rest
    down = orc("down", "bare", "--yes")
    assert down.status == 0, down.text
    assert nothing_runs(fleet)
