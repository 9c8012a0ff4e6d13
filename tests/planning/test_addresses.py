"""Addresses over a whole deployment: what a router or a KV store brings together can meet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import PlanError
from orchestrator.planning.service import ROUTER_GROUP
from tests.planning.builders import RACK, make_plan

TWO = {"strategy": "single_node_tp", "replicas": 2}
ROUTER = {**TWO, "router": {}}
STORE = {"strategy": "single_node_tp", "kv_offload": "kv_store_distributed_mooncake"}
ELSEWHERE = {"strategy": "single_node_tp", "router": {"host": "node02"}}


@pytest.mark.parametrize(
    ("selection", "address", "message"),
    [
        (ROUTER, "127.0.0.1", r"is 127\.0\.0\.1, a loopback address \(from orc_address\)"),
        (ROUTER, "10.1.0.11", "node01, node02 have the same data-plane address"),
        (ELSEWHERE, "127.0.0.1", "a loopback address(.|\n)*the router reaches every node"),
        (ELSEWHERE, "10.1.0.300", r"node02 is 10\.1\.0\.300 \(from orc_address\)"),
        ({**STORE, "instances": 2}, "127.0.0.1", "a loopback address(.|\n)*meet the KV store"),
        ({**STORE, "instances": 2}, "10.1.0.11", "node01, node02 have the same data-plane"),
        ({**STORE, "instances": 2}, "fd00::2", "IPv4, and that of node02 is fd00::2, IPv6"),
        ({"strategy": "pd_cluster"}, "127.0.0.1", "a loopback address"),
    ],
)
def test_replicas_that_work_together_have_to_meet(
    tmp_path: Path, selection: dict[str, Any], address: str, message: str
) -> None:
    text = RACK.replace("10.1.0.12", f"'{address}'")
    with pytest.raises(PlanError, match=message):
        make_plan(tmp_path, text, **selection)


@pytest.mark.parametrize(
    ("selection", "address"),
    [
        (TWO, "127.0.0.1"),  # each is for itself
        (ROUTER, "fd00::2"),  # a router may have both families
        ({**STORE, "instances": 1}, "127.0.0.1"),  # node02 has no part in it
    ],
)
def test_hosts_that_need_not_meet_are_left_alone(
    tmp_path: Path, selection: dict[str, Any], address: str
) -> None:
    assert make_plan(tmp_path, RACK.replace("10.1.0.12", f"'{address}'"), **selection).nodes


def test_what_is_all_on_one_host_meets_at_its_loopback_address(tmp_path: Path) -> None:
    text = "all: {hosts: {here: {ansible_connection: local, orc_hardware: h200}}}"
    plan = make_plan(tmp_path, text, strategy="pd_cluster", nodes=1)
    assert {node.address for node in plan.nodes} == {"127.0.0.1"}
    assert plan.router is not None
    assert plan.router.replica == ROUTER_GROUP
