"""Variables of a host or a user that contradict the plan are refused, all others hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator import Catalog, Deployment, plan
from orchestrator.errors import PlanError
from orchestrator.secret import Secret
from orchestrator.topology.ports import PortUse
from tests.planning.builders import RACK, inventory, make_plan

ALONE: dict[str, Any] = {"strategy": "single_node_tp"}
SPLIT: dict[str, Any] = {"strategy": "multi_node_tp_pp"}
UNEVEN: dict[str, Any] = {**SPLIT, "layer_partition": [32, 29]}
POOLS: dict[str, Any] = {"strategy": "pd_cluster"}
STORE: dict[str, Any] = {**ALONE, "kv_offload": "kv_store_distributed_mooncake", "instances": 2}
AMD = RACK.replace("h200", "mi300x")
NIXL, PARTITION = "VLLM_NIXL_SIDE_CHANNEL_PORT", "VLLM_PP_LAYER_PARTITION"


def host_variable(node: int, name: str, value: str, text: str = RACK) -> str:
    """The rack with an `orc_env` variable on one node."""
    address = f"orc_address: 10.1.0.1{node}"
    return text.replace(address, f"{address}, orc_env: {{{name}: '{value}'}}")


def first_gpus(text: str = RACK) -> str:
    return text.replace("orc_interface: bond0", "orc_gpus: [4, 5, 6, 7]")


@pytest.mark.parametrize(
    ("selection", "name", "value", "message"),
    [
        (SPLIT, PARTITION, "30,31", r"'30,31', but the plan (.|\n)*layer_partition: \[30,31\]"),
        (UNEVEN, PARTITION, "30,31", r"'30,31', but the plan has 32,29"),
        (UNEVEN, PARTITION, "thirty", r"layer_partition: \[N,M\]"),
        (ALONE, PARTITION, "61", r"but the plan leaves the split to vLLM"),
        (ALONE, "CUDA_VISIBLE_DEVICES", "0,1", r"planned on 0, 1, 2(.|\n)*orc_gpus"),
        (ALONE, "CUDA_VISIBLE_DEVICES", "7,6,5,4,3,2,1,0", "changes the GPUs of orc-"),
        (ALONE, "CUDA_VISIBLE_DEVICES", "", "changes the GPUs of orc-"),
        (ALONE, "HIP_VISIBLE_DEVICES", "0", "changes the GPUs of orc-"),
        (ALONE, "ROCR_VISIBLE_DEVICES", "0", "changes the GPUs of orc-"),
        (SPLIT, "VLLM_HOST_IP", "127.0.0.1", "no other host can reach a loopback address"),
        (SPLIT, "VLLM_HOST_IP", "0.0.0.0", "every interface"),
        (ALONE, "VLLM_HOST_IP", "0.0.0.0", "every interface"),
        (SPLIT, "VLLM_HOST_IP", "node01", "takes an IP address there, not a name"),
        (SPLIT, "VLLM_HOST_IP", "", "is no address of node01"),
        (SPLIT, "VLLM_HOST_IP", "10.1.0.11", r"is 10\.1\.0\.11 on node01 and on node02"),
        (SPLIT, "VLLM_HOST_IP", "10.9.0.1", r"is 10\.9\.0\.1 on node01 and on node02"),
        (POOLS, "VLLM_NIXL_SIDE_CHANNEL_HOST", "localhost", "not a name"),
        (POOLS, "VLLM_NIXL_SIDE_CHANNEL_HOST", "224.0.0.1", "multicast"),
        (POOLS, "VLLM_NIXL_SIDE_CHANNEL_HOST", "10.1.0.11", "on node01 and on node02"),
        (STORE, "VLLM_HOST_IP", "127.0.0.1", "loopback"),
        (STORE, "PYTHONHASHSEED", "random", "is 'random', and the instances of a KV store"),
        (STORE, "PYTHONHASHSEED", str(2**32), "0 to 4294967295"),
        (ALONE, "VLLM_PORT", "8000", "the port of the API of replica 0"),
        (SPLIT, "VLLM_PORT", "29501", "the port of the master port of replica 0"),
        (ALONE, "VLLM_PORT", "tcp://10.0.0.1:80", "no port"),
        (ALONE, "VLLM_PORT", "0", "no port"),
        (ALONE, NIXL, "8000", "the port of the API of replica 0"),
        ({**ALONE, "router": {}}, "VLLM_PORT", "30000", "the port of the API of the router"),
        (STORE, "VLLM_MOONCAKE_BOOTSTRAP_PORT", "50051", "the RPC of the KV store's master"),
        (STORE, "MOONCAKE_CONFIG_PATH", "/mine.json", "kv_store.KEY"),
        (ALONE, "VLLM_DP_RANK_LOCAL", "1", "must not be set for a server"),
        (ALONE, "VLLM_DP_SIZE", "2", "offline use only"),
        (ALONE, "LOCAL_RANK", "1", "a launcher such as torchrun"),
        (SPLIT, "MASTER_ADDR", "10.1.0.11", "a launcher such as torchrun"),
    ],
)
def test_a_variable_that_contradicts_the_plan_is_refused(
    tmp_path: Path, selection: dict[str, Any], name: str, value: str, message: str
) -> None:
    with pytest.raises(PlanError, match=message) as refused:
        make_plan(tmp_path, **selection, env={name: value})
    assert name in refused.value.what
    assert str(refused.value.where).startswith("node")
    assert refused.value.hint


@pytest.mark.parametrize(
    ("selection", "name", "value"),
    [
        (UNEVEN, PARTITION, "32,29"),
        (ALONE, "CUDA_VISIBLE_DEVICES", "0,1,2,3,4,5,6,7"),
        (ALONE, "VLLM_HOST_IP", "127.0.0.1"),  # nobody else has to reach it
        ({**ALONE, "replicas": 2}, "VLLM_HOST_IP", "127.0.0.1"),
        (STORE, "PYTHONHASHSEED", "42"),
        (ALONE, "PYTHONHASHSEED", "random"),
        (ALONE, "MOONCAKE_CONFIG_PATH", "/a.json"),  # of a store that orc does not plan
        (ALONE, "VLLM_PORT", "21000"),
        (POOLS, NIXL, "7000"),  # it is allotted so
        (SPLIT, "NCCL_SOCKET_IFNAME", "=ib0"),
        (SPLIT, "GLOO_SOCKET_IFNAME", "ib0"),
    ],
)
def test_a_variable_that_agrees_with_the_plan_holds(
    tmp_path: Path, selection: dict[str, Any], name: str, value: str
) -> None:
    nodes = make_plan(tmp_path, **selection, env={name: value}).nodes
    assert {node.env[name] for node in nodes} == {value}


@pytest.mark.parametrize(
    ("selection", "name", "value"),
    [
        (SPLIT, "VLLM_HOST_IP", "10.2.0.12"),  # another network of the host's
        (POOLS, "VLLM_NIXL_SIDE_CHANNEL_HOST", "10.2.0.12"),
        (POOLS, "VLLM_HOST_IP", "10.1.0.12"),
        (SPLIT, "NCCL_SOCKET_IFNAME", "=ib0"),
    ],
)
def test_a_host_may_have_an_address_of_its_own(
    tmp_path: Path, selection: dict[str, Any], name: str, value: str
) -> None:
    text = host_variable(2, name, value)
    assert make_plan(tmp_path, text, **selection).nodes[1].env[name] == value


@pytest.mark.parametrize(
    ("selection", "name", "value", "message"),
    [
        (POOLS, NIXL, "7000", f"node02: {NIXL} is 7000, but 5558 was allotted to"),
        (SPLIT, "VLLM_HOST_IP", "10.1.0.11", r"is 10\.1\.0\.11 on node01 and on node02"),
        (STORE, "PYTHONHASHSEED", "1", "PYTHONHASHSEED is 0 on node01 and 1 on node02"),
        (UNEVEN, PARTITION, "30,31", "but the plan has 32,29"),
    ],
)
def test_a_host_may_not_contradict_the_others(
    tmp_path: Path, selection: dict[str, Any], name: str, value: str, message: str
) -> None:
    with pytest.raises(PlanError, match=message):
        make_plan(tmp_path, host_variable(2, name, value), **selection)


def test_a_side_channel_port_that_another_holds_is_refused_with_the_free_one(
    tmp_path: Path,
) -> None:
    deployment = Deployment.model_validate(
        {"recipe": "moonshotai/Kimi-K2.6", **POOLS, "env": {NIXL: "7000"}}
    )
    use = PortUse(busy={"node02": {7000: "python3/77"}})
    with pytest.raises(PlanError, match=f"node02: {NIXL} is 7000, but 7001 was allotted to"):
        plan(inventory(tmp_path), Catalog.load(), deployment, ports=use)


def test_pools_on_one_host_cannot_have_one_side_channel_port(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=f"{NIXL} is 7000, but 700. was allotted to"):
        make_plan(tmp_path, **POOLS, nodes=1, env={NIXL: "7000"})


def test_part_of_a_hosts_gpus_is_counted_as_the_container_sees_them(tmp_path: Path) -> None:
    cuda, hip, rocr = "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"
    cases = [
        (first_gpus(), cuda, "0,1,2,3", True),
        (first_gpus(), cuda, "4,5,6,7", False),
        (first_gpus(AMD), hip, "4,5,6,7", True),  # the host's, by which orc itself chooses
        (first_gpus(AMD), hip, "0,1,2,3", False),
        (first_gpus(AMD), rocr, "4,5,6,7", False),  # HIP would count from there
        (AMD, rocr, "0,1,2,3", True),
    ]
    selection: dict[str, Any] = {**ALONE, "recipe": "orc/tiny-llama", "parallel": {"tensor": 4}}
    for text, name, value, holds in cases:
        if holds:
            assert make_plan(tmp_path, text, **selection, env={name: value}).nodes
            continue
        with pytest.raises(PlanError, match=f"{name} is '{value}', which changes the GPUs of"):
            make_plan(tmp_path, text, **selection, env={name: value})


def test_a_secret_is_not_looked_at(tmp_path: Path) -> None:
    def fetch() -> str:
        raise AssertionError("a plan does not need it")

    for name in ("VLLM_HOST_IP", "VLLM_PORT", PARTITION, "CUDA_VISIBLE_DEVICES"):
        assert make_plan(tmp_path, env={name: Secret(fetch)}).nodes
    assert make_plan(tmp_path, **STORE, env={"PYTHONHASHSEED": Secret(fetch)}).nodes


def test_without_a_network_pools_meet_at_the_loopback_address(tmp_path: Path) -> None:
    text = "all: {hosts: {here: {ansible_connection: local, orc_hardware: h200}}}"
    nodes = make_plan(tmp_path, text, **POOLS, nodes=1).nodes
    assert {node.env["VLLM_HOST_IP"] for node in nodes} == {"127.0.0.1"}
