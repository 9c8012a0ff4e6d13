"""Router and KV store: who runs them, with which command, ports and files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Catalog, Deployment, Plan, plan
from orchestrator.deployment import Router
from orchestrator.errors import PlanError
from orchestrator.facts.host_facts import HostFacts
from orchestrator.planning.kv_store import CONFIG_FILE
from orchestrator.planning.launch_spec import LaunchSpec
from orchestrator.planning.port_use import ports_in_use
from tests.planning.builders import RACK, inventory, make_plan
from tests.planning.test_decision import running

DISTRIBUTED = "kv_store_distributed_mooncake"
CENTRALIZED = "kv_store_centralized_mooncake"


def router_of(plan: Plan) -> LaunchSpec:
    assert plan.router is not None
    return plan.router


def values(words: tuple[str, ...], flag: str) -> list[str]:
    """All values of `flag`: until the next option."""
    found: list[str] = []
    take = False
    for word in words:
        take = word == flag if word.startswith("--") else take
        if take and word != flag:
            found.append(word)
    return found


def replicas(path: Path, **selection: Any) -> Plan:
    selection = {"strategy": "single_node_tp", "replicas": 2, **selection}
    return make_plan(path, **selection)


def test_replicas_have_a_router_only_when_one_is_asked_for(tmp_path: Path) -> None:
    assert replicas(tmp_path).router is None
    router = router_of(replicas(tmp_path, router={"host": "node02", "policy": "cache_aware"}))
    assert (router.host, router.role, router.gpus) == ("node02", "router", ())
    assert router.argv[0] == "vllm-router"
    assert values(router.argv, "--worker-urls") == [
        "http://10.1.0.11:8000",
        "http://10.1.0.12:8000",
    ]
    assert values(router.argv, "--policy") == ["cache_aware"]
    assert router.ports == {"api": 30000, "metrics": 29000}
    assert router.name == "orc-kimi-k2-6-router"


def test_a_routers_ports_are_kept_for_it_while_its_engines_load(tmp_path: Path) -> None:
    """It starts last; another deployment that is planned before then must not take them."""
    first = replicas(tmp_path, name="first", router={})
    states = [running(node) for node in first.nodes]
    use = ports_in_use("second", {"node01": HostFacts(), "node02": HostFacts()}, states)
    deployment = Deployment(
        recipe="moonshotai/Kimi-K2.6", strategy="single_node_tp", name="second", router=Router()
    )
    second = plan(inventory(tmp_path), Catalog.load(), deployment, ports=use)
    assert router_of(second).ports == {"api": 30001, "metrics": 29001}
    again = ports_in_use("first", {"node01": HostFacts(), "node02": HostFacts()}, states)
    assert again.busy == {"node01": {}, "node02": {}}
    moved = replicas(tmp_path, name="first", router={"port": 31000})
    assert [n.spec_hash for n in moved.nodes] == [n.spec_hash for n in first.nodes]


def test_they_are_kept_on_a_host_too_that_runs_no_engine(tmp_path: Path) -> None:
    alone: dict[str, Any] = {"strategy": "single_node_tp", "router": {"host": "node02"}}
    first = make_plan(tmp_path, name="first", **alone)
    assert {node.host for node in first.nodes} == {"node01"}
    use = ports_in_use("second", {}, [running(node) for node in first.nodes])
    second = plan(
        inventory(tmp_path),
        Catalog.load(),
        Deployment.model_validate({"recipe": "moonshotai/Kimi-K2.6", "name": "second", **alone}),
        ports=use,
    )
    assert router_of(second).ports == {"api": 30001, "metrics": 29001}
    assert use.busy["node02"][30000] == "the router of deployment first, which starts later"


def test_a_stores_own_router_port_is_taken_unless_the_user_names_one(tmp_path: Path) -> None:
    store = {"kv_offload": DISTRIBUTED}
    assert router_of(replicas(tmp_path, **store)).ports["api"] == 30080
    policy = replicas(tmp_path, router={"policy": "random"}, **store)
    assert router_of(policy).ports["api"] == 30080
    assert router_of(replicas(tmp_path, router={"port": 30000}, **store)).ports["api"] == 30000


def test_a_worker_that_is_slow_to_answer_stays_behind_the_router(tmp_path: Path) -> None:
    """Its own 5 s for /health are too few for a busy vLLM, and three misses take it out."""
    router = router_of(replicas(tmp_path, router={}))
    assert values(router.argv, "--health-check-timeout-secs") == ["30"]


def test_endpoints_of_one_data_parallel_group_always_get_a_router(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, strategy="multi_node_dep")
    assert values(router_of(plan).argv, "--worker-urls") == [
        "http://10.1.0.11:8000",
        "http://10.1.0.12:8000",
    ]
    internal = make_plan(tmp_path, strategy="multi_node_dep", load_balancing="internal")
    assert internal.router is None


def test_prefill_and_decode_are_told_apart_with_the_ranks_behind_each(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, strategy="pd_cluster")
    prefill, decode = plan.nodes
    assert (prefill.name, decode.name) == (
        "orc-kimi-k2-6-r0-n0-prefill",
        "orc-kimi-k2-6-r0-n0-decode",
    )
    argv = router_of(plan).argv
    assert "--vllm-pd-disaggregation" in argv
    assert values(argv, "--prefill") == ["http://10.1.0.11:8001"]
    assert values(argv, "--decode") == ["http://10.1.0.12:8002"]
    assert values(argv, "--intra-node-data-parallel-size") == ["8"]
    assert prefill.env["VLLM_NIXL_SIDE_CHANNEL_HOST"] == "10.1.0.11"
    assert prefill.env["VLLM_HOST_IP"] == "10.1.0.11"
    assert prefill.env["VLLM_NIXL_SIDE_CHANNEL_PORT"] == "5557"
    assert decode.env["VLLM_NIXL_SIDE_CHANNEL_PORT"] == "5558"
    assert "CUDA_VISIBLE_DEVICES" not in prefill.env


def test_no_placeholder_is_left_anywhere(tmp_path: Path) -> None:
    for selection in (
        {"strategy": "pd_cluster"},
        {"strategy": "pd_cluster", "kv_offload": CENTRALIZED},
        {"strategy": "single_node_tp", "kv_offload": DISTRIBUTED, "instances": 2},
        {"strategy": "multi_node_dep"},
    ):
        assert "$" not in json.dumps(make_plan(tmp_path, **selection).to_dict())


def test_a_distributed_store_is_a_master_and_memory_that_the_instances_lend(
    tmp_path: Path,
) -> None:
    plan = replicas(tmp_path, kv_offload=DISTRIBUTED, instances=2)
    (master,) = plan.services
    assert (master.host, master.role) == ("node01", "kv_master")
    assert "-rpc_port=50051" in master.argv
    path = plan.nodes[1].env["MOONCAKE_CONFIG_PATH"]
    assert isinstance(path, str)
    config = json.loads(plan.nodes[1].container.files[path])
    assert config["master_server_address"] == "10.1.0.11:50051"
    assert config["global_segment_size"] == "100GB"
    assert {node.env["PYTHONHASHSEED"] for node in plan.nodes} == {"0"}
    assert f"/var/tmp/orc/{plan.nodes[1].name}/mooncake.json:{path}:ro" in plan.nodes[1].command
    assert values(router_of(plan).argv, "--policy") == ["cache_aware"]


def test_a_centralized_store_has_a_service_on_every_host_and_instances_lend_nothing(
    tmp_path: Path,
) -> None:
    sizes = {"global_segment_size": "2GB"}
    plan = replicas(tmp_path, kv_offload=CENTRALIZED, instances=2, kv_store=sizes)
    master, first, second = plan.services
    assert [s.role for s in plan.services] == ["kv_master", "kv_store", "kv_store"]
    config = json.loads(next(iter(second.container.files.values())))
    assert config["local_hostname"] == "10.1.0.12"
    assert config["global_segment_size"] == "2GB"
    assert config["protocol"] == "tcp"
    instance = json.loads(next(iter(plan.nodes[0].container.files.values())))
    assert instance["global_segment_size"] == 0
    assert first.ports == {"mooncake_store": 8080}
    assert master.ports == {"mooncake": 50051, "mooncake_metrics": 9003}


@pytest.mark.parametrize("address", ["10.1.0.9:50051", "store.rack:50051", "[fd00::9]:50051"])
def test_a_master_of_the_users_own_takes_the_place_of_ours(tmp_path: Path, address: str) -> None:
    given = {"kv_store": {"master_server_address": address}, "instances": 2}
    plan = replicas(tmp_path, kv_offload=DISTRIBUTED, **given)
    assert plan.services == ()
    assert f"the KV store's master is yours, at {address}" in "\n".join(plan.notes)
    configs = [json.loads(node.container.files[CONFIG_FILE]) for node in plan.nodes]
    assert {config["master_server_address"] for config in configs} == {address}
    centralized = replicas(tmp_path, kv_offload=CENTRALIZED, **given)
    assert [(s.role, s.rank) for s in centralized.services] == [("kv_store", 0), ("kv_store", 1)]
    assert {s.container.labels["orc.nodes"] for s in centralized.services} == {"2"}
    config = json.loads(centralized.services[0].container.files[CONFIG_FILE])
    assert config["master_server_address"] == address


def test_masters_found_by_etcd_are_not_looked_into(tmp_path: Path) -> None:
    entry = {"master_server_address": "etcd://10.1.0.9:2379;10.1.0.10:2379"}
    assert replicas(tmp_path, kv_offload=DISTRIBUTED, kv_store=entry).services == ()


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("10.1.0.9", "it is HOST:PORT"),
        ("50051", "it is HOST:PORT"),
        ("10.1.0.9:0", "it is HOST:PORT"),
        ("10.1.0.9:port", "it is HOST:PORT"),
        ("0.0.0.0:50051", "every interface"),
        ("10.1.0.300:50051", "neither an IP address nor a host name"),
        ("127.0.0.1:50051", "a loopback address is another machine on each"),
        ("localhost:50051", "a loopback address is another machine on each"),
        ("fd00::9:50051", "an IPv6 address, and no other"),
        ("[10.1.0.9]:50051", "an IPv6 address, and no other"),
    ],
)
def test_a_master_that_the_hosts_cannot_meet_is_refused(
    tmp_path: Path, address: str, why: str
) -> None:
    store = {"kv_offload": DISTRIBUTED, "instances": 2}
    with pytest.raises(PlanError, match=rf"kv_store\.master_server_address is (.|\n)*{why}"):
        replicas(tmp_path, **store, kv_store={"master_server_address": address})


def test_rdma_is_used_where_the_hosts_have_it(tmp_path: Path) -> None:
    text = RACK.replace(
        "orc_interface: bond0", "orc_interface: bond0\n    orc_devices: [/dev/infiniband]"
    )
    plan = make_plan(tmp_path, text, strategy="single_node_tp", kv_offload=DISTRIBUTED, instances=2)
    config = json.loads(next(iter(plan.nodes[0].container.files.values())))
    assert config["protocol"] == "rdma"


def test_no_port_is_given_twice_on_a_host(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, strategy="pd_cluster", kv_offload=CENTRALIZED)
    everything = [*plan.nodes, *plan.services, router_of(plan)]
    used = [(spec.host, port) for spec in everything for port in spec.ports.values()]
    assert len(used) == len(set(used))


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ({"router": {"host": "node2"}}, r"router\.host 'node2' is not(.|\n)*'node02'"),
        (
            {"kv_offload": DISTRIBUTED, "kv_store": {"segment": "1GB"}},
            r"kv_store\.segment is no setting",
        ),
        (
            {
                "kv_offload": DISTRIBUTED,
                "kv_store": {"metadata_server": "redis://u:s3kr1t@10.1.0.9:6379"},
            },
            r"^(?!(.|\n)*s3kr1t)kv_store\.metadata_server would put a secret into",
        ),
    ],
)
def test_what_does_not_exist_is_refused(
    tmp_path: Path, selection: dict[str, Any], message: str
) -> None:
    with pytest.raises(PlanError, match=message):
        replicas(tmp_path, **selection)
