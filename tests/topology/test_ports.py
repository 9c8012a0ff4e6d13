"""Ports: no collision, the user's wish respected or refused, and the same again next time."""

from __future__ import annotations

import pytest

from orchestrator.errors import PlanError
from orchestrator.topology.ports import PortAllotment, PortUse, port_in_words, port_use
from tests.topology.builders import layout, slots


def test_a_port_that_another_holds_is_passed_over() -> None:
    use = PortUse(busy={"node01": {8000: "orc-other-r0-n0", 29501: "orc-other-r0-n0"}})
    head = layout("multi_node_tp", slots(8, 8), use=use).nodes[0]
    assert head.ports == {"master": 29502, "api": 8001}
    assert head.parallel[head.parallel.index("--master-port") + 1] == "29502"


def test_a_port_that_the_user_asked_for_is_refused_when_it_is_taken() -> None:
    use = PortUse(busy={"node01": {8000: "nginx/812", 29501: "python3/77"}})
    with pytest.raises(
        PlanError, match=r"port 8000 \(API of replica 0\) is taken on node01 by nginx/812"
    ):
        layout("single_node_tp", slots(8), use=use, port=8000)
    with pytest.raises(PlanError, match=r"port 29501 \(master port of replica 0\) is taken on"):
        layout("multi_node_tp", slots(8, 8), use=use, master_port=29501)


def test_a_port_already_held_is_taken_again_though_a_lower_one_is_free_now() -> None:
    use = PortUse(held={"node01": {"api head 0.0": 8003}})
    assert layout("single_node_tp", slots(8), use=use).nodes[0].port == 8003


def test_ports_run_out_with_a_message() -> None:
    with pytest.raises(PlanError, match="no free port from 65535 upwards on node01 for the API of"):
        layout("single_node_tp", slots(8), replicas=2, parallel={"tensor": 4}, port=65535)


def test_the_port_asked_for_is_that_of_the_first_server_on_every_host() -> None:
    use = PortUse(busy={"node02": {9000: "nginx/812"}})
    with pytest.raises(PlanError, match=r"port 9000 \(API of replica 1\) is taken on node02 by ng"):
        layout("single_node_tp", slots(8, 8), use=use, replicas=2, port=9000)
    shared = layout("single_node_tp", slots(8), replicas=2, parallel={"tensor": 4}, port=9000)
    assert [node.port for node in shared.nodes] == [9000, 9001]


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (port_use("api", "head", 1, 0), "API of replica 1"),
        (port_use("api", "worker", 0, 3), "API of rank 3 of replica 0"),
        (port_use("master", "prefill", 0, 0), "master port of the prefill pool of replica 0"),
        (
            port_use("nixl8", "decode", 2, 1),
            "NIXL side channel of data-parallel rank 8 of rank 1 of the decode pool of replica 2",
        ),
        (port_use("api", "router", -2, 0), "API of the router"),
        (port_use("mooncake", "kv_master", -1, 0), "RPC of the KV store's master"),
        (port_use("mooncake_store", "kv_store", -1, 2), "REST API of the KV store's service 2"),
    ],
)
def test_a_ports_use_is_said_in_the_fields_words(use: str, words: str) -> None:
    assert port_in_words(use) == words


def test_a_port_of_the_deployments_own_is_named_by_what_has_it() -> None:
    ports = PortAllotment()
    ports.take("node01", port_use("api", "router", -2, 0), 8000)
    with pytest.raises(PlanError, match="is taken on node01 by the API of the router"):
        ports.take("node01", port_use("api", "head", 0, 0), 8000, exact=True)
