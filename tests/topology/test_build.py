"""Layouts of the strategies, and what is refused with which equation."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.errors import PlanError
from orchestrator.recipes.resolved import ModelShape
from orchestrator.topology.layout import Slot
from tests.topology.builders import layout, slots


def test_single_node_tp_uses_every_gpu_and_each_replica_is_its_own_server() -> None:
    result = layout("single_node_tp", slots(8, 8), replicas=2)
    assert [(n.slot.host, n.replica, n.rank, n.role) for n in result.nodes] == [
        ("node01", 0, 0, "head"),
        ("node02", 1, 0, "head"),
    ]
    assert all(n.parallel == ("--tensor-parallel-size", "8") and n.serves for n in result.nodes)


def test_the_tensor_size_that_the_weights_fit_into_is_the_default_on_one_node() -> None:
    result = layout("single_node_tp", slots(8), recipe={"fitted_tensor": 2})
    assert result.nodes[0].gpus == (0, 1)
    assert layout(
        "single_node_tp", slots(8), parallel={"tensor": 4}, recipe={"fitted_tensor": 2}
    ).nodes[0].gpus == (0, 1, 2, 3)


def test_multi_node_tp_spans_all_gpus_and_only_followers_are_headless() -> None:
    head, worker = layout("multi_node_tp", slots(8, 8)).nodes
    shared = ("--tensor-parallel-size", "16", "--nnodes", "2")
    assert head.parallel[:4] == worker.parallel[:4] == shared
    assert head.parallel[4:] == (
        *("--node-rank", "0", "--master-addr", "10.1.0.11", "--master-port", "29501"),
        *("--distributed-executor-backend", "mp"),
    )
    assert worker.parallel[4:6] == ("--node-rank", "1")
    assert worker.parallel[-1] == "--headless"
    assert (head.serves, worker.serves) == (True, False)


def test_tp_pp_keeps_tensor_ranks_in_the_node_and_gives_each_node_its_stage() -> None:
    head, worker = layout("multi_node_tp_pp", slots(8, 8)).nodes
    assert head.parallel[:4] == ("--tensor-parallel-size", "8", "--pipeline-parallel-size", "2")
    assert {rank.layers for rank in head.ranks} == {(0, 31)}
    assert {rank.layers for rank in worker.ranks} == {(31, 61)}
    assert [rank.world for rank in worker.ranks] == list(range(8, 16))
    assert [(rank.pp, rank.tp) for rank in worker.ranks] == [(1, tp) for tp in range(8)]


def test_two_stages_fit_into_one_node_when_the_tensor_size_is_fixed() -> None:
    result = layout("multi_node_tp_pp", slots(8, 8), parallel={"tensor": 4})
    assert (result.first_sizes.tensor, result.first_sizes.pipeline) == (4, 4)
    assert [rank.pp for rank in result.nodes[0].ranks] == [0] * 4 + [1] * 4


def test_a_layer_partition_counts_only_where_it_differs_from_vllms_own() -> None:
    same = layout("multi_node_tp_pp", slots(8, 8), layer_partition=[31, 30])
    other = layout("multi_node_tp_pp", slots(8, 8), layer_partition=[29, 32])
    assert same.layer_partition is None
    assert other.layer_partition == (29, 32)
    assert other.nodes[1].ranks[0].layers == (29, 61)


def test_replicas_max_takes_as_many_as_fit_and_names_the_hosts_left_over() -> None:
    result = layout("multi_node_tp", slots(8, 8, 8, 8, 8), nodes=2, replicas="max")
    assert result.replicas == 2
    assert result.unused == ("node05",)


def test_a_host_added_at_the_end_moves_no_replica() -> None:
    before = layout("multi_node_tp", slots(8, 8), nodes=2).nodes
    after = layout("multi_node_tp", slots(8, 8, 8), nodes=2).nodes
    assert before == after


LLAMA40 = ModelShape(layers=40, attention_heads=40, kv_heads=8)
FP8 = ModelShape(attention_heads=64, moe_intermediate_size=3072, quantization_block=128)

REFUSALS: list[tuple[str, str, list[Slot], dict[str, Any], str]] = [
    (
        "heads that do not divide (vllm#5003)",
        "multi_node_tp",
        slots(8, 8),
        {"shape": LLAMA40},
        r"40 % 16 = 8(.|\n)*tensor 8 x pipeline 2 on 2 nodes \(16 GPUs\).*allows: 1, 2, 4, 8, 40\)",
    ),
    (
        "blocks that are cut (recipes#497)",
        "multi_node_tp",
        slots(8, 8),
        {"shape": FP8},
        r"3072 / 16 = 192 is not a multiple of the quantization block 128",
    ),
    (
        "unequal hosts",
        "multi_node_tp",
        slots(8, 4),
        {},
        r"unequal GPU counts: node01 8, node02 4(.|\n)*orc_gpus",
    ),
    (
        "a host with too few GPUs",
        "multi_node_tp",
        slots(8, 4),
        {"parallel": {"tensor": 16}},
        r"node02(.|\n)*= 8 GPUs per node, but node02 has 4",
    ),
    (
        "too few hosts",
        "multi_node_tp",
        slots(8, 8, 8),
        {"nodes": 2, "replicas": 2},
        r"2 replicas x 2 nodes = 4 hosts, but 3 are there",
    ),
    (
        "one host for two nodes",
        "multi_node_tp_pp",
        slots(8),
        {},
        r"1 replica x 2 nodes = 2 hosts, but 1 is there \(node01\)",
    ),
    (
        "a loopback address (vllm#7074)",
        "multi_node_tp",
        [Slot("a", (0,), "127.0.1.1"), Slot("b", (0,), "10.0.0.2")],
        {},
        r"a: the data-plane address of a is 127\.0\.1\.1, a loopback address",
    ),
    (
        "no address",
        "multi_node_tp",
        [Slot("a", (0,), None), Slot("b", (0,), "10.0.0.2")],
        {},
        r"no data-plane address of a is known",
    ),
    (
        "one address twice",
        "multi_node_tp",
        [Slot("a", (0,), "10.0.0.2"), Slot("b", (0,), "10.0.0.2")],
        {},
        r"a, b have the same data-plane address 10\.0\.0\.2",
    ),
    (
        "several nodes for a single-node strategy",
        "single_node_tp",
        slots(8, 8),
        {"nodes": 2},
        r"runs on one node, but nodes = 2(.|\n)*replicas: 2",
    ),
    (
        "data parallel where there is none",
        "single_node_tp",
        slots(8),
        {"parallel": {"data": 2}},
        r"has no data parallel, but data = 2",
    ),
    (
        "sizes that do not multiply to the GPUs",
        "multi_node_tp_pp",
        slots(8, 8),
        {"parallel": {"tensor": 3}},
        r"pipeline = 16 GPUs / tensor 3: 16 % 3 = 1",
    ),
    (
        "more stages than layers",
        "multi_node_tp_pp",
        slots(8, 8),
        {"shape": ModelShape(layers=4), "parallel": {"tensor": 2}},
        r"has 4 layers, fewer than 8 pipeline stages",
    ),
    (
        "decode context that does not divide",
        "single_node_tp",
        slots(8),
        {"parallel": {"decode_context": 3}},
        r"8 % 3 = 2",
    ),
    (
        "decode context beyond the KV heads",
        "single_node_tp",
        slots(8),
        {"shape": ModelShape(attention_heads=64, kv_heads=4), "parallel": {"decode_context": 4}},
        r"8 // 4 = 2(.|\n)*at most 2",
    ),
]


@pytest.mark.parametrize(
    ("strategy", "hosts", "selection", "message"),
    [pytest.param(*case[1:], id=case[0]) for case in REFUSALS],
)
def test_what_cannot_run_is_refused_with_its_equation(
    strategy: str, hosts: list[Slot], selection: dict[str, Any], message: str
) -> None:
    with pytest.raises(PlanError) as caught:
        layout(strategy, hosts, **selection)
    assert re.search(message, str(caught.value)), str(caught.value)


@settings(deadline=None)
@given(
    strategy=st.sampled_from(["multi_node_tp", "multi_node_tp_pp"]),
    nodes=st.integers(2, 8),
    gpus=st.sampled_from([1, 2, 4, 8]),
    replicas=st.integers(1, 3),
)
def test_ranks_cover_the_world_exactly_once(
    strategy: str, nodes: int, gpus: int, replicas: int
) -> None:
    hosts = slots(*([gpus] * nodes * replicas))
    result = layout(strategy, hosts, nodes=nodes, replicas=replicas, shape=ModelShape())
    for index in range(replicas):
        group = [node for node in result.nodes if node.replica == index]
        worlds = [rank.world for node in group for rank in node.ranks]
        assert worlds == list(range(nodes * gpus))
        assert [node.rank for node in group] == list(range(nodes))
        assert [node.serves for node in group] == [True] + [False] * (nodes - 1)
        assert result.first_sizes.tensor * result.first_sizes.pipeline == nodes * gpus
