"""Prefill/decode: pools of any size and kind, their ranks and their ports."""

from __future__ import annotations

import pytest

from orchestrator.deployment import Deployment
from orchestrator.errors import PlanError
from orchestrator.topology.build import build_layout
from orchestrator.topology.layout import Layout
from tests.topology.builders import prefill_decode, slots

ONE_EACH = ((1, "tp"), (1, "tp"))


def pools(
    prefill: tuple[int, str], decode: tuple[int, str], *gpus: int, **selection: object
) -> Layout:
    deployment = Deployment.model_validate({"recipe": "org/model", **selection})
    return build_layout(prefill_decode(prefill, decode), slots(*gpus), deployment)


def test_each_pool_has_hosts_ranks_and_ports_of_its_own() -> None:
    prefill, decode = pools(*ONE_EACH, 8, 8).nodes
    assert (prefill.role, prefill.rank, prefill.slot.host) == ("prefill", 0, "node01")
    assert (decode.role, decode.rank, decode.slot.host) == ("decode", 0, "node02")
    assert prefill.ports == {"api": 8001, "nixl0": 5557}
    assert decode.ports == {"api": 8002, "nixl0": 5558}
    assert prefill.parallel == ("--tensor-parallel-size", "8")


def test_a_tensor_pool_over_nodes_has_one_endpoint_and_a_dep_pool_one_per_node() -> None:
    layout = pools((2, "tp"), (2, "dep"), 4, 4, 4, 4)
    assert [(n.role, n.rank, n.serves) for n in layout.nodes] == [
        ("prefill", 0, True),
        ("prefill", 1, False),
        ("decode", 0, True),
        ("decode", 1, True),
    ]
    assert layout.sizes["prefill"].tensor == 8
    assert (layout.sizes["decode"].tensor, layout.sizes["decode"].data) == (1, 8)
    assert layout.nodes[3].ports["nixl4"] == 5558 + 4
    assert "nixl0" not in layout.nodes[1].ports


def test_both_pools_halve_one_node_without_a_port_twice() -> None:
    layout = pools((1, "dep"), (1, "dep"), 8, nodes=1)
    prefill, decode = layout.nodes
    assert (prefill.gpus, decode.gpus) == ((0, 1, 2, 3), (4, 5, 6, 7))
    ports = [port for node in layout.nodes for port in node.ports.values()]
    assert len(ports) == len(set(ports)) == 10


def test_replicas_of_pools_take_hosts_in_order() -> None:
    layout = pools(*ONE_EACH, 8, 8, 8, 8, replicas=2)
    assert [(n.replica, n.role, n.slot.host) for n in layout.nodes[2:]] == [
        (1, "prefill", "node03"),
        (1, "decode", "node04"),
    ]


def test_nodes_that_contradict_the_pools_are_refused() -> None:
    with pytest.raises(PlanError, match=r"prefill 1 \+ decode 1 = 2 nodes"):
        pools(*ONE_EACH, 8, 8, 8, nodes=3)


def test_two_pools_cannot_share_a_node_of_one_gpu() -> None:
    deployment = Deployment.model_validate({"recipe": "org/model", "nodes": 1})
    with pytest.raises(PlanError, match="two pools cannot share node01, which has 1 GPU"):
        build_layout(prefill_decode((1, "tp"), (1, "tp")), slots(1), deployment)
