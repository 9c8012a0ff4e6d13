"""What holds for every plan, over random fleets and selections."""

from __future__ import annotations

import json
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from orchestrator import Inventory, Plan, plan
from orchestrator.errors import InputError
from orchestrator.planning.launch_spec import LaunchSpec
from orchestrator.topology.layout import Sizes
from orchestrator.topology.ports import PortUse
from tests.golden.case import catalog, inventory_of, ports_of, selection
from tests.golden.test_golden import flags_of

RECIPES = {
    "golden/moe": (
        *("single_node_tp", "single_node_tep", "single_node_dep", "single_node_dpa_tp"),
        *("multi_node_tp", "multi_node_tep", "multi_node_tp_pp", "multi_node_dep"),
        *("multi_node_tp_dp", "pd_cluster"),
    ),
    "golden/dense": ("single_node_tp", "multi_node_tp", "multi_node_tp_dp", "pd_cluster"),
    "golden/latent": ("single_node_tp", "multi_node_tp_pp", "multi_node_dep", "pd_cluster"),
}
STORES = ("kv_store_distributed_mooncake", "kv_store_centralized_mooncake")
BALANCED = {"single_node_dep", "multi_node_dep", "multi_node_tp_dp"}
BALANCING = ("internal", "hybrid", "external")
PARALLEL: list[dict[str, int]] = [
    *([{}] * 4),
    *({"tensor": size} for size in (1, 2, 2, 4, 8, 16)),
    *({"pipeline": 2}, {"tensor": 2, "pipeline": 2}, {"tensor": 4, "pipeline": 2}),
    *({"data": 2}, {"data": 4}, {"tensor": 2, "data": 3}),
    *({"prefill_context": 2}, {"tensor": 2, "prefill_context": 2}, {"decode_context": 2}),
]
RANK_FLAGS = {"node-rank", "start", "dp-rank", "local", "headless"}
OWN_VARIABLES = {
    *("VLLM_HOST_IP", "HIP_VISIBLE_DEVICES", "VLLM_NIXL_SIDE_CHANNEL_HOST"),
    *("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"),
    "VLLM_NIXL_SIDE_CHANNEL_PORT",
}
DEFAULT_PORTS = (8000, 8001, 8002, 29501, 29550, 30000, 29000, 5557, 5560, 50051, 9003, 8080)

EXAMPLES = int(os.environ.get("ORC_PROPERTY_EXAMPLES", "250"))  # of each property
many = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))

Fleet = tuple[tuple[int, ...], str]  # GPUs of each host, and the hardware
Situation = tuple[Fleet, dict[str, Any]]


@lru_cache(maxsize=4096)
def inventory(fleet: Fleet) -> Inventory:
    gpus, hardware = fleet
    with tempfile.TemporaryDirectory() as directory:
        return inventory_of(list(gpus), {"orc_hardware": hardware}, Path(directory))


@st.composite
def situations(draw: st.DrawFn) -> tuple[Fleet, dict[str, Any]]:
    """A fleet and a selection that mostly goes with it: sizes out of what its hosts have."""
    recipe = draw(st.sampled_from(list(RECIPES)))
    strategy = draw(st.sampled_from(RECIPES[recipe]))
    asked: dict[str, Any] = {"recipe": recipe, "strategy": strategy}
    nodes, gpus = 1, draw(st.sampled_from([1, 2, 4, 8]))
    replicas = draw(st.integers(1, 3))
    if strategy == "pd_cluster":
        kinds = ["tp"] if recipe == "golden/dense" else ["tp", "tep", "dep"]
        sizes = [draw(st.integers(1, 2)), draw(st.integers(1, 2))]
        asked["pools"] = {
            role: {"nodes": size, "parallelism": draw(st.sampled_from(kinds))}
            for role, size in zip(("prefill", "decode"), sizes, strict=True)
        }
        nodes = sum(sizes)
        if nodes == 2 and draw(st.booleans()):
            asked["nodes"] = nodes = 1  # both pools halve it
    elif strategy.startswith("multi"):
        asked["nodes"] = nodes = draw(st.integers(2, 4))
    hosts = [gpus] * (nodes * replicas + draw(st.integers(0, 1)))
    if draw(st.integers(0, 3)) == 0:
        hosts = [draw(st.sampled_from([1, 2, 4, 8])) for _ in hosts]
    asked["replicas"] = draw(st.sampled_from([replicas, replicas, replicas, "max"]))
    asked["parallel"] = draw(st.sampled_from(PARALLEL)) | {}
    if strategy in BALANCED and (balancing := draw(st.sampled_from([None, *BALANCING]))):
        asked["load_balancing"] = balancing
    if draw(st.booleans()):
        asked["router"] = {}
    if draw(st.integers(0, 3)) == 0 and strategy != "single_node_dpa_tp":
        asked["kv_offload"] = draw(st.sampled_from(STORES))
    return (tuple(hosts), draw(st.sampled_from(["h200", "mi300x"]))), asked


def busy_ports() -> st.SearchStrategy[dict[str, dict[int, str]]]:
    owners = st.dictionaries(st.sampled_from(DEFAULT_PORTS), st.just("somebody"), max_size=4)
    return st.dictionaries(st.sampled_from(["node01", "node02", "node03"]), owners, max_size=3)


def planned(
    fleet: Fleet, asked: dict[str, Any], busy: dict[str, dict[int, str]] | None = None
) -> Plan | None:
    """The plan, or None where it is refused: with a message, and by no other exception."""
    try:
        made = plan(inventory(fleet), catalog(), selection(asked), None, PortUse(busy or {}))
    except InputError as refusal:
        assert str(refusal).strip()
        event("refused")
        return None
    event(made.strategy)
    return made


def engines(made: Plan) -> Iterable[tuple[Sizes, list[LaunchSpec]]]:
    """Each parallel group: its sizes by its head's arguments, and its nodes in order of rank."""
    groups: dict[tuple[int, str], list[LaunchSpec]] = defaultdict(list)
    for spec in made.nodes:
        groups[spec.replica, spec.role if spec.role in made.layout.sizes else ""].append(spec)
    for nodes in groups.values():
        flags = flags_of(nodes[0].argv)
        tensor, pipeline, context, data = (
            number(flags, name) for name in ("tp", "pp", "pcp", "dp")
        )
        expert = "ep" in flags
        yield (
            Sizes(tensor, pipeline, data, prefill_context=context, expert_parallel=expert),
            nodes,
        )


def number(flags: dict[str, str | None], name: str) -> int:
    return int(flags.get(name) or 1)


@many
@given(situations())
def test_ranks_cover_the_world_exactly_once(situation: Situation) -> None:
    made = planned(*situation)
    for sizes, nodes in engines(made) if made else ():
        ranks = [rank for spec in nodes for rank in spec.ranks]
        assert [rank.world for rank in ranks] == list(range(sizes.world))
        places = {(rank.dp, rank.pp, rank.pcp, rank.tp) for rank in ranks}
        assert len(places) == sizes.world
        if sizes.expert_parallel:
            dealt = [(rank.pp, rank.ep) for rank in ranks]
            per_stage = range(sizes.world // sizes.pipeline)
            assert sorted(dealt) == [(pp, ep) for pp in range(sizes.pipeline) for ep in per_stage]
        spans = sorted({rank.layers for rank in ranks if rank.layers})
        assert [first for first, _ in spans] == [0, *(last for _, last in spans[:-1])]


@many
@given(situations())
def test_no_gpu_is_used_twice_and_each_is_the_hosts_own(situation: Situation) -> None:
    made = planned(*situation)
    used = [(spec.host, gpu) for spec in made.nodes for gpu in spec.gpus] if made else []
    assert len(used) == len(set(used))
    (hosts, _), _ = situation
    assert all(gpu < hosts[int(host.removeprefix("node")) - 1] for host, gpu in used)
    for spec in made.nodes if made else ():
        assert spec.gpus == tuple(rank.gpu for rank in spec.ranks)


@many
@given(situations())
def test_the_sizes_in_every_argument_list_multiply_to_the_gpus_used(situation: Situation) -> None:
    made = planned(*situation)
    for _, nodes in engines(made) if made else ():
        gpus = sum(len(spec.gpus) for spec in nodes)
        for spec in nodes:
            flags = flags_of(spec.argv)
            sizes = [number(flags, name) for name in ("tp", "pp", "pcp", "dp")]
            assert sizes[0] * sizes[1] * sizes[2] * sizes[3] == gpus, spec.argv


@many
@given(situations())
def test_local_sizes_sum_to_the_whole_and_starts_to_what_came_before(situation: Situation) -> None:
    made = planned(*situation)
    for sizes, nodes in engines(made) if made else ():
        flags = [flags_of(spec.argv) for spec in nodes]
        local = [number(node, "local") for node in flags if "local" in node]
        assert not local or (len(local) == len(nodes) and sum(local) == sizes.data)
        for index, node in enumerate(flags):
            if start := node.get("start"):
                assert int(start) == sum(local[:index])
        external = [int(node["dp-rank"] or 0) for node in flags if "dp-rank" in node]
        assert not external or external == list(range(sizes.data))
        joined = [int(node["node-rank"] or 0) for node in flags if "nnodes" in node]
        assert not joined or joined == list(range(len(nodes)))


@many
@given(situations())
def test_a_node_is_headless_exactly_when_it_follows(situation: Situation) -> None:
    """Under hybrid and external load balancing no node does; else all but the head do. A start
    rank on a serving node would itself mean hybrid."""
    made = planned(*situation)
    for _, nodes in engines(made) if made else ():
        for index, spec in enumerate(nodes):
            flags = flags_of(spec.argv)
            balanced = "hybrid" in flags or "dp-rank" in flags
            assert ("headless" in flags) == (index > 0 and not balanced), spec.argv
            assert ("headless" in flags) == (spec.port is None)
            assert "start" not in flags or "hybrid" in flags or "headless" in flags
            assert not ("nnodes" in flags and {"start", "local", "dp-rank"} & flags.keys())


@many
@given(situations(), busy_ports())
def test_no_port_is_given_twice_or_taken_from_another(
    situation: Situation, busy: dict[str, dict[int, str]]
) -> None:
    made = planned(*situation, busy)
    used = ports_of(made) if made else []
    assert len(used) == len(set(used))
    assert not [place for place in used if place[1] in busy.get(place[0], {})]
    taken = {host: dict(ports) for host, ports in busy.items()}
    for host, port in used:
        taken.setdefault(host, {})[port] = "the first"
    fleet, asked = situation
    second = planned(fleet, {**asked, "name": "second"}, taken)
    assert (made is None) == (second is None)
    assert not set(used) & set(ports_of(second) if second else [])


@many
@given(situations(), busy_ports())
def test_the_same_input_gives_the_same_bytes(
    situation: Situation, busy: dict[str, dict[int, str]]
) -> None:
    first, second = planned(*situation, busy), planned(*situation, busy)
    if first and second:
        inventory.cache_clear()
        third = planned(*situation, busy)
        texts = {json.dumps(made.to_dict()) for made in (first, second, third) if made}
        assert len(texts) == 1
    else:
        assert first is second is None


@many
@given(situations())
def test_the_nodes_of_an_engine_differ_only_in_ranks_addresses_and_interfaces(
    situation: Situation,
) -> None:
    made = planned(*situation)
    for _, nodes in engines(made) if made else ():
        assert len({_without_ranks(spec) for spec in nodes}) == 1
        environments = {
            tuple(sorted((k, v) for k, v in spec.env.items() if k not in OWN_VARIABLES))
            for spec in nodes
        }
        assert len(environments) == 1
        assert len({spec.image for spec in nodes}) == 1


def _without_ranks(spec: LaunchSpec) -> tuple[str, ...]:
    """The argument list without rank flags and without the port of the node's own API."""
    flags = flags_of(spec.argv)
    shared = tuple(f"{name}={value}" for name, value in flags.items() if name not in RANK_FLAGS)
    words = list(spec.argv)
    if "--port" in words:
        del words[(at := words.index("--port")) : at + 2]
    plain = [word for word in words if word not in {*flags.values()}]
    return (
        *shared,
        *[word for word in plain if not word.startswith(("--data-", "--node-", "--headless"))],
    )


@many
@given(situations())
def test_every_endpoint_is_a_serving_node_and_the_router_knows_them_all(
    situation: Situation,
) -> None:
    made = planned(*situation)
    if made is None:
        return
    urls = [endpoint.url for endpoint in made.endpoints]
    assert len(urls) == len(set(urls)) == sum(spec.port is not None for spec in made.nodes) > 0
    of_one = len(made.endpoints) // made.layout.replicas
    assert made.router is not None or of_one == 1
    if made.router:
        assert [word for word in made.router.argv if word.startswith("http")] == urls


@many
@given(situations(), st.sampled_from([1, 2, 4, 8]))
def test_a_host_added_at_the_end_moves_no_replica(situation: Situation, gpus: int) -> None:
    """But for replicas that shared the hosts, where the new one makes as many hosts as replicas:
    then each has one of its own."""
    (hosts, hardware), asked = situation
    replicas, single = asked["replicas"], "nodes" not in asked and "pools" not in asked
    if replicas == "max" or (single and replicas == len(hosts) + 1):
        return
    before = planned(*situation)
    after = planned(((*hosts, gpus), hardware), asked)
    if before:
        assert after is not None
        assert [spec.to_dict() for spec in after.nodes] == [s.to_dict() for s in before.nodes]
