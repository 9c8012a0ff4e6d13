"""A replica that runs stays where it is, whatever becomes of the inventory around it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator import Catalog, Deployment, Plan, plan
from orchestrator.planning.decision import decide
from orchestrator.planning.running import running_placement
from orchestrator.runtime.containers import ContainerState
from tests.planning.builders import inventory
from tests.planning.test_decision import running

HALF: dict[str, Any] = {"strategy": "single_node_tp", "parallel": {"tensor": 4}, "replicas": 2}
PAIR: dict[str, Any] = {"strategy": "multi_node_tp", "nodes": 2, "replicas": 2}


def made(
    directory: Path,
    hosts: str,
    selection: dict[str, Any],
    states: list[ContainerState],
    **other: str,
) -> Plan:
    """A plan on hosts named by letters, beside containers of the same deployment; `other`
    variables of hosts."""
    lines = [
        f"    {host}: {other.get(host) or f'{{orc_address: 10.1.0.{ord(host)}}}'}" for host in hosts
    ]
    rack = "all:\n  vars: {orc_hardware: h200, orc_interface: bond0}\n  hosts:\n"
    deployment = Deployment.model_validate({"recipe": "moonshotai/Kimi-K2.6", **selection})
    return plan(
        inventory(directory, rack + "\n".join(lines) + "\n"),
        Catalog.load(),
        deployment,
        running=running_placement(deployment.deployment_name(), states),
    )


def up(one: Plan) -> list[ContainerState]:
    return [running(node) for node in one.nodes]


def places(one: Plan) -> list[str]:
    return ["".join(node.host for node in nodes) for nodes in one.replicas()]


@pytest.mark.parametrize(
    ("selection", "before", "after"),
    [
        (HALF, "a", "ab"),  # both share a host, and one is added
        (HALF, "ac", "abc"),  # one is added between them
        (HALF, "bc", "abc"),
        (HALF, "bc", "cb"),
        (PAIR, "abcd", "xabcd"),
        (PAIR, "abcd", "dcba"),
        ({"strategy": "pd_cluster", "pools": {"prefill": 1, "decode": 1}}, "bc", "abc"),
    ],
)
def test_a_replica_that_runs_stays_on_its_hosts(
    tmp_path: Path, selection: dict[str, Any], before: str, after: str
) -> None:
    first = made(tmp_path, before, selection, [])
    second = made(tmp_path, after, selection, up(first))
    assert places(second) == places(first)
    assert [node.gpus for node in second.nodes] == [node.gpus for node in first.nodes]
    assert [d.action for d in decide(second, up(first)).replicas if d.replica >= 0] == [
        "keep" for _ in first.replicas()
    ]


def test_without_what_runs_replica_k_is_on_host_k(tmp_path: Path) -> None:
    assert places(made(tmp_path, "ab", HALF, [])) == ["a", "b"]


def test_a_new_replica_takes_a_whole_host_where_there_is_one_and_else_what_is_left_of_one(
    tmp_path: Path,
) -> None:
    two = up(made(tmp_path, "a", HALF, []))
    three = {**HALF, "replicas": 3}
    assert places(made(tmp_path, "abc", three, two)) == ["a", "a", "b"]
    assert places(made(tmp_path, "ab", three, two)) == ["a", "a", "b"]
    apart = up(made(tmp_path, "ab", HALF, []))
    fourth = made(tmp_path, "ab", {**HALF, "replicas": 4}, apart)
    assert places(fourth) == ["a", "b", "a", "b"]
    assert [node.gpus[0] for node in fourth.nodes] == [0, 0, 4, 4]


def test_a_pair_of_hosts_is_found_around_one_that_runs(tmp_path: Path) -> None:
    one = up(made(tmp_path, "bc", {**PAIR, "replicas": 1}, []))
    both = made(tmp_path, "abcd", PAIR, one)
    assert places(both) == ["bc", "ad"]
    assert both.layout.unused == ()


def test_a_host_with_too_few_gpus_is_passed_over(tmp_path: Path) -> None:
    small = "{orc_address: 10.1.0.98, orc_gpus: [0]}"
    one = up(made(tmp_path, "a", {**HALF, "replicas": 1}, []))
    for states in (one, []):
        found = made(tmp_path, "abc", {**HALF, "replicas": "max"}, states, b=small)
        assert places(found) == ["a", "a", "c", "c"]
    two = made(tmp_path, "abc", HALF, one, b=small)
    assert places(two) == ["a", "c"]


@pytest.mark.parametrize(
    ("selection", "hosts"),
    [
        ({**HALF, "parallel": {"tensor": 8}}, "ab"),  # it is to have more GPUs than it has
        (HALF, "cd"),  # its hosts are gone
        ({**PAIR, "replicas": 1}, "ab"),  # it is to span other hosts
    ],
)
def test_what_runs_elsewise_than_it_should_is_planned_anew(
    tmp_path: Path, selection: dict[str, Any], hosts: str
) -> None:
    states = up(made(tmp_path, "b", {**HALF, "replicas": 1}, []))
    assert places(made(tmp_path, hosts, selection, states)) == places(
        made(tmp_path, hosts, selection, [])
    )


def test_what_has_lost_a_rank_or_does_not_run_holds_no_place(tmp_path: Path) -> None:
    states = up(made(tmp_path, "bc", {**PAIR, "replicas": 1}, []))
    assert running_placement("kimi-k2-6", states[:1]) == {}
    stopped = [ContainerState(s.host, s.id, s.name, "exited", s.labels) for s in states]
    assert running_placement("kimi-k2-6", stopped) == {}
    assert running_placement("another", states) == {}
    assert len(running_placement("kimi-k2-6", [states[0], stopped[1]])[0]) == 2
