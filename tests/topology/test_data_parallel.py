"""Data parallel by every kind of load balancing, uneven hosts, nested ranks, dense models."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import PlanError
from orchestrator.recipes.resolved import ModelShape
from orchestrator.topology.layout import Layout, Node
from tests.topology.builders import layout, slots

MOE = {"mixture_of_experts": True}


def moe(strategy: str, *gpus: int, **selection: Any) -> Layout:
    return layout(strategy, slots(*gpus), recipe=MOE, **selection)


def value(node: Node, flag: str) -> str | None:
    flags = node.parallel
    return flags[flags.index(flag) + 1] if flag in flags else None


def test_one_node_needs_no_address() -> None:
    (node,) = moe("single_node_dep", 8).nodes
    assert node.parallel == ("--data-parallel-size", "8")
    assert [(r.dp, r.tp, r.ep) for r in node.ranks] == [(d, 0, d) for d in range(8)]


def test_hybrid_is_the_default_of_dep_and_every_node_serves() -> None:
    head, other = moe("multi_node_dep", 8, 8).nodes
    assert head.parallel == (
        "--data-parallel-hybrid-lb",
        *("--data-parallel-size", "16"),
        *("--data-parallel-address", "10.1.0.11", "--data-parallel-rpc-port", "29550"),
        *("--data-parallel-size-local", "8", "--data-parallel-start-rank", "0"),
    )
    assert value(other, "--data-parallel-start-rank") == "8"
    assert head.serves
    assert other.serves
    assert "--headless" not in head.parallel + other.parallel


def test_internal_has_one_endpoint_and_no_start_rank_on_its_head() -> None:
    """gpustack#6221: a start rank on the head, even 0, silently means hybrid."""
    head, other = moe("multi_node_dep", 8, 8, load_balancing="internal").nodes
    assert "--data-parallel-start-rank" not in head.parallel
    assert value(other, "--data-parallel-start-rank") == "8"
    assert other.parallel[-1] == "--headless"
    assert (head.port, other.port) == (8000, None)


def test_external_runs_one_server_per_rank_each_with_its_own_port_and_gpu() -> None:
    nodes = moe("multi_node_dep", 2, 2, load_balancing="external").nodes
    assert [(n.slot.host, n.gpus, n.port) for n in nodes] == [
        ("node01", (0,), 8000),
        ("node01", (1,), 8001),
        ("node02", (0,), 8000),
        ("node02", (1,), 8001),
    ]
    assert [value(n, "--data-parallel-rank") for n in nodes] == ["0", "1", "2", "3"]
    assert all("--headless" not in n.parallel for n in nodes)


def test_uneven_hosts_hold_uneven_numbers_of_ranks_and_starts_add_up() -> None:
    nodes = moe("multi_node_dep", 8, 4, 2).nodes
    assert [value(n, "--data-parallel-size-local") for n in nodes] == ["8", "4", "2"]
    assert [value(n, "--data-parallel-start-rank") for n in nodes] == ["0", "8", "12"]
    assert {value(n, "--data-parallel-size") for n in nodes} == {"14"}


def test_a_fixed_tensor_size_makes_fewer_ranks() -> None:
    """A recipe's own tensor size in a DEP override changes the data size (the site keeps it)."""
    result = layout(
        "multi_node_dep",
        slots(8, 8),
        recipe={**MOE, "fixed_parallel": {"--tensor-parallel-size": "4"}},
    )
    assert (result.first_sizes.tensor, result.first_sizes.data) == (4, 4)
    assert value(result.nodes[1], "--data-parallel-start-rank") == "2"
    assert [r.ep for r in result.nodes[1].ranks] == list(range(8, 16))


def test_tp_dp_gives_each_node_a_rank_and_followers_are_headless() -> None:
    head, other = moe("multi_node_tp_dp", 8, 8).nodes
    assert head.parallel[:4] == ("--tensor-parallel-size", "8", "--data-parallel-size", "2")
    assert "--headless" not in head.parallel
    assert other.parallel[-3:] == ("--data-parallel-start-rank", "1", "--headless")


def test_a_rank_over_several_nodes_is_nested_and_infers_its_place() -> None:
    nodes = moe("multi_node_tp_dp", 1, 1, 1, 1, parallel={"tensor": 2}).nodes
    for node in nodes:
        assert value(node, "--nnodes") == "4"
        assert value(node, "--node-rank") == str(node.rank)
        assert value(node, "--data-parallel-size") == "2"
        assert "--data-parallel-start-rank" not in node.parallel
        assert "--data-parallel-size-local" not in node.parallel
        assert ("--headless" in node.parallel) == (node.rank > 0)
    assert [(n.ranks[0].dp, n.ranks[0].tp) for n in nodes] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_a_dense_model_with_one_rank_per_node_becomes_independent_replicas() -> None:
    """verl#6856: hybrid with one rank per node dies with an AssertionError."""
    result = layout("multi_node_tp_dp", slots(8, 8))
    assert [(n.replica, n.rank, n.role) for n in result.nodes] == [(0, 0, "head"), (1, 0, "head")]
    assert not any("data-parallel" in flag for n in result.nodes for flag in n.parallel)
    assert "2 independent replicas, one on each node" in result.notes[0]


def test_a_dense_rank_over_nodes_becomes_replicas_that_span_nodes() -> None:
    result = layout("multi_node_tp_dp", slots(4, 4, 4, 4), parallel={"tensor": 8})
    assert [(n.replica, n.rank) for n in result.nodes] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert value(result.nodes[3], "--master-addr") == "10.1.0.13"
    assert "spanning 2 nodes" in result.notes[0]


def test_a_dense_model_keeps_data_parallel_with_two_ranks_per_node_or_when_internal() -> None:
    two = layout("multi_node_dep", slots(2, 2))
    assert value(two.nodes[0], "--data-parallel-size") == "4"
    internal = layout("multi_node_dep", slots(1, 1), load_balancing="internal")
    assert value(internal.nodes[1], "--data-parallel-start-rank") == "1"


def test_replicas_smaller_than_a_host_share_it_and_have_ports_of_their_own() -> None:
    result = layout("single_node_tp", slots(8), replicas=2, parallel={"tensor": 4})
    assert [(n.gpus, n.port) for n in result.nodes] == [
        ((0, 1, 2, 3), 8000),
        ((4, 5, 6, 7), 8001),
    ]


def test_replicas_max_fills_the_hosts() -> None:
    result = layout("single_node_tp", slots(8, 4), replicas="max", parallel={"tensor": 4})
    assert [n.slot.host for n in result.nodes] == ["node01", "node01", "node02"]


@pytest.mark.parametrize(
    ("strategy", "gpus", "selection", "message"),
    [
        ("multi_node_dep", (8, 8), {"parallel": {"tensor": 3}}, r"8 GPUs / 3 each: 8 % 3 = 2"),
        ("multi_node_dep", (8, 2), {"parallel": {"tensor": 4}}, r"takes 4 GPUs, but node02 has 2"),
        ("multi_node_dep", (8, 8), {"parallel": {"data": 17}}, r"17 ranks of 1 GPUs = 17 GPUs"),
        ("multi_node_dep", (8, 8), {"parallel": {"data": 1}}, r"leave a node without one"),
        ("multi_node_tp_dp", (4, 4, 4), {"parallel": {"tensor": 8}}, r"3 nodes / 2 nodes per rank"),
        ("multi_node_tp_dp", (4, 4), {"parallel": {"tensor": 6}}, r"6 % 4 = 2"),
        (
            "multi_node_tp_dp",
            (4, 4, 4, 4),
            {"parallel": {"tensor": 8, "data": 4}},
            r"data = 4 was asked for, but 4 nodes / 2 nodes per rank = 2",
        ),
        ("single_node_dep", (8,), {"parallel": {"data": 16}}, r"room for 8 ranks"),
        ("multi_node_tp", (8, 8), {"load_balancing": "hybrid"}, r"has no data parallel"),
        ("single_node_tp", (8,), {"replicas": 3, "parallel": {"tensor": 4}}, r"room for 2"),
    ],
)
def test_what_does_not_come_out_even_is_refused(
    strategy: str, gpus: tuple[int, ...], selection: dict[str, Any], message: str
) -> None:
    with pytest.raises(PlanError) as caught:
        moe(strategy, *gpus, shape=ModelShape(), **selection)
    assert re.search(message, str(caught.value)), str(caught.value)


@given(
    gpus=st.lists(st.sampled_from([1, 2, 4, 8]), min_size=2, max_size=10),
    balancing=st.sampled_from(["hybrid", "internal", "external"]),
)
def test_local_sizes_sum_to_the_whole_and_ranks_cover_the_world(
    gpus: list[int], balancing: str
) -> None:
    result = moe("multi_node_dep", *gpus, shape=ModelShape(), load_balancing=balancing)
    assert result.first_sizes.data == sum(gpus)
    worlds = [rank.world for node in result.nodes for rank in node.ranks]
    assert worlds == list(range(sum(gpus)))
    assert [rank.dp for node in result.nodes for rank in node.ranks] == worlds
    used = [(node.slot.host, port) for node in result.nodes for port in node.ports.values()]
    assert len(used) == len(set(used))
    for node in result.nodes:
        assert ("--headless" in node.parallel) == (balancing == "internal" and node.rank > 0)
