"""What workers log of their ranks, compared with the plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator import Plan
from orchestrator.health.rank_lines import (
    WorkerRank,
    parse_rank_lines,
    planned_ranks,
    rank_differences,
)
from tests.planning.builders import make_plan

# As the CPU build of vLLM 0.32.0 printed them.
NESTED = (
    "(Worker_DP1_TP1_EP3 pid=43) INFO 11-30 19:17:10 [parallel_state.py:2350] rank 3 in world size "
    "4 is assigned as DP rank 1, PP rank 0, PCP rank 0, TP rank 1, ETP rank 1, EP rank 3, "
    "EPLB rank N/A"
)
DENSE = (
    "(Worker pid=26) INFO 11-30 19:16:07 [parallel_state.py:2350] rank 0 in world size 1 is "
    "assigned as DP rank 0, PP rank 0, PCP rank 0, TP rank 0, ETP rank 0, EP rank N/A, "
    "EPLB rank N/A"
)
CPUS = """
all:
  vars: {orc_hardware: cpu, orc_interface: eth0, orc_gpus: [0, 1]}
  hosts:
    node01: {ansible_host: 192.0.2.11, orc_address: 10.1.0.11}
    node02: {ansible_host: 192.0.2.12, orc_address: 10.1.0.12}
"""


def line(world: int, size: int, dp: int, pp: int, tp: int, ep: int | str = "N/A") -> str:
    return (
        f"rank {world} in world size {size} is assigned as DP rank {dp}, PP rank {pp}, "
        f"PCP rank 0, TP rank {tp}, ETP rank {tp}, EP rank {ep}, EPLB rank N/A"
    )


def planned(directory: Path, **selection: object) -> Plan:
    return make_plan(directory, CPUS, **selection)


@pytest.fixture
def pipeline(tmp_path: Path) -> Plan:
    return planned(tmp_path, recipe="orc/tiny-llama", strategy="multi_node_tp_pp", nodes=2)


def test_a_workers_line_is_read_among_others() -> None:
    assert parse_rank_lines(["Starting", NESTED, "", DENSE, "rank 7 in world size"]) == [
        WorkerRank(0, 1, 0, 0, 0, 0, None),
        WorkerRank(3, 4, 1, 0, 0, 1, 3),
    ]


def test_a_line_of_an_older_vllm_without_context_ranks_is_read() -> None:
    text = "rank 1 in world size 2 is assigned as DP rank 0, PP rank 0, TP rank 1, EP rank 1"
    assert parse_rank_lines([text]) == [WorkerRank(1, 2, 0, 0, 0, 1, 1)]


def test_the_workers_of_a_pipeline_agree_with_its_plan(pipeline: Plan) -> None:
    head, worker = pipeline.nodes
    assert rank_differences(head, pipeline, [line(0, 4, 0, 0, 0), line(1, 4, 0, 0, 1)]) == []
    assert rank_differences(worker, pipeline, [line(3, 4, 0, 1, 1), line(2, 4, 0, 1, 0)]) == []


def test_swapped_ranks_are_told_with_what_was_planned(pipeline: Plan) -> None:
    said = [line(2, 4, 0, 1, 0), line(1, 4, 0, 0, 1)]
    assert rank_differences(pipeline.nodes[0], pipeline, said) == [
        "no worker says that it is rank 0 of 4 (DP 0, PP 0, PCP 0, TP 0)",
        "a worker says that it is rank 2 of 4 (DP 0, PP 1, PCP 0, TP 0), which is not planned here",
    ]


def test_a_worker_that_says_nothing_is_missed(pipeline: Plan) -> None:
    (missing,) = rank_differences(pipeline.nodes[1], pipeline, [line(2, 4, 0, 1, 0)])
    assert missing == "no worker says that it is rank 3 of 4 (DP 0, PP 1, PCP 0, TP 1)"


def test_lines_from_before_a_restart_of_the_container_are_no_difference(pipeline: Plan) -> None:
    said = [line(0, 4, 0, 0, 0), line(1, 4, 0, 0, 1)]
    assert rank_differences(pipeline.nodes[0], pipeline, said * 2) == []


def test_engines_of_a_dense_model_are_worlds_of_their_own(tmp_path: Path) -> None:
    plan = planned(
        tmp_path, recipe="orc/tiny-llama", strategy="multi_node_tp_dp", nodes=2,
        parallel={"tensor": 1},
    )  # fmt: skip
    assert [rank.dp for rank in plan.nodes[1].ranks] == [2, 3]
    assert rank_differences(plan.nodes[1], plan, [DENSE, DENSE]) == []
    (missing,) = rank_differences(plan.nodes[1], plan, [DENSE])
    assert missing == "no worker says that it is rank 0 of 1 (DP 0, PP 0, PCP 0, TP 0)"


def test_engines_of_a_mixture_of_experts_are_one_world(tmp_path: Path) -> None:
    plan = planned(tmp_path, recipe="orc/tiny-qwen3-moe", strategy="multi_node_dep", nodes=2)
    assert planned_ranks(plan.nodes[1], plan) == [
        WorkerRank(2, 4, 2, 0, 0, 0, 2),
        WorkerRank(3, 4, 3, 0, 0, 0, 3),
    ]


def test_the_expert_group_counts_only_under_expert_parallel(tmp_path: Path) -> None:
    plan = planned(tmp_path, recipe="orc/tiny-qwen3-moe", strategy="multi_node_tp", nodes=2)
    said = [line(2, 4, 0, 0, 2, 2), line(3, 4, 0, 0, 3, 3)]
    assert rank_differences(plan.nodes[1], plan, said) == []


def test_each_pool_has_a_world_of_its_own(tmp_path: Path) -> None:
    plan = planned(tmp_path, recipe="orc/tiny-llama", strategy="pd_cluster", nodes=2)
    for node in plan.nodes:
        assert rank_differences(node, plan, [line(0, 2, 0, 0, 0), line(1, 2, 0, 0, 1)]) == []
