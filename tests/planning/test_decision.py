"""What is to be done about a plan, given what runs: one table after the other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Plan
from orchestrator.planning.decision import decide
from orchestrator.planning.launch_spec import LaunchSpec
from orchestrator.runtime.containers import ContainerState
from tests.planning.builders import make_plan

FOUR = """
all:
  vars: {orc_hardware: h200, orc_interface: bond0}
  hosts:
    node01: {orc_address: 10.1.0.11}
    node02: {orc_address: 10.1.0.12}
    node03: {orc_address: 10.1.0.13}
    node04: {orc_address: 10.1.0.14}
"""


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return make_plan(tmp_path, FOUR, nodes=2, replicas=2, name="kimi")


def running(spec: LaunchSpec, **changes: Any) -> ContainerState:
    """The container of a spec, as it looks when `orc up` has started it."""
    state = ContainerState(
        host=spec.host,
        id=f"id-{spec.name}",
        name=spec.name,
        status="running",
        labels={**spec.container.labels, "orc.spec": spec.spec_hash},
        image=f"{spec.image.partition(':')[0]}@sha256:1",
        command=spec.container.command,
    )
    return replace(state, **changes)


def actions(plan: Plan, states: list[ContainerState], **options: bool) -> list[str]:
    return [d.action for d in decide(plan, states, **options).replicas]


def test_nothing_there_starts_everything(plan: Plan) -> None:
    decision = decide(plan, [])
    assert [d.action for d in decision.replicas] == ["start", "start"]
    assert decision.refusals == ()


def test_everything_there_is_kept(plan: Plan) -> None:
    states = [running(node) for node in plan.nodes]
    assert actions(plan, states) == ["keep", "keep"]
    assert decide(plan, states).refusals == ()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"status": "exited", "exit_code": 137}, "rank 1 on node02: exited 137 (SIGKILL)"),
        ({"status": "exited", "exit_code": 0}, "exited 0"),
        ({"status": "created", "error": "no GPU"}, "never started: no GPU"),
        ({"status": "paused"}, "paused"),
        ({"status": "dead", "exit_code": 1}, "exited 1"),
    ],
)
def test_a_rank_that_does_not_run_restarts_its_replica_whole_and_no_other(
    plan: Plan, change: dict[str, Any], reason: str
) -> None:
    states = [running(node) for node in plan.nodes]
    states[1] = replace(states[1], **change)
    decision = decide(plan, states)
    assert [d.action for d in decision.replicas] == ["restart", "keep"]
    assert reason in decision.replicas[0].reasons[0]
    assert {s.name for s in decision.replicas[0].containers} == {
        "orc-kimi-r0-n0",
        "orc-kimi-r0-n1",
    }


def test_a_start_that_broke_off_is_restarted_whole(plan: Plan) -> None:
    decision = decide(plan, [running(plan.nodes[0])])
    assert [d.action for d in decision.replicas] == ["restart", "start"]
    assert decision.replicas[0].reasons == ("rank 1 is missing on node02",)


def test_a_leftover_that_exited_with_another_spec_is_no_obstacle(plan: Plan) -> None:
    labels = {**plan.nodes[0].container.labels, "orc.spec": "another"}
    old = running(plan.nodes[0], status="exited", exit_code=1, labels=labels)
    decision = decide(plan, [old])
    assert decision.replicas[0].action == "restart"
    assert decision.refusals == ()


def another_spec(plan: Plan) -> list[ContainerState]:
    states = [running(node) for node in plan.nodes]
    for index in (0, 1):
        command = (*states[index].command, "--max-num-seqs", "4")
        labels = {**states[index].labels, "orc.spec": "another"}
        states[index] = replace(states[index], labels=labels, command=command)
    return states


def test_another_spec_that_runs_is_refused_naming_what_differs(plan: Plan) -> None:
    decision = decide(plan, another_spec(plan))
    assert [d.action for d in decision.replicas] == ["differs", "keep"]
    (refusal,) = decision.refusals
    assert refusal.startswith("replica 0: orc-kimi-r0-n0 on node01 runs another spec: ")
    assert "--max-num-seqs 4 -> (not set)" in refusal


def test_with_replace_it_is_restarted(plan: Plan) -> None:
    decision = decide(plan, another_spec(plan), replace=True)
    assert [d.action for d in decision.replicas] == ["restart", "keep"]
    assert decision.refusals == ()


def test_a_key_on_the_command_line_is_not_repeated_in_the_refusal(plan: Plan) -> None:
    states = another_spec(plan)
    states[0] = replace(states[0], command=(*states[0].command, "--api-key", "sk-very-secret"))
    assert "sk-very-secret" not in decide(plan, states).refusals[0]


def test_a_difference_that_no_flag_shows_is_still_one(plan: Plan) -> None:
    labels = {**plan.nodes[0].container.labels, "orc.spec": "another"}
    decision = decide(plan, [running(plan.nodes[0], labels=labels)])
    assert "environment, mounts or container options" in decision.refusals[0]


def test_another_image_is_named(plan: Plan) -> None:
    labels = {**plan.nodes[0].container.labels, "orc.spec": "another"}
    decision = decide(plan, [running(plan.nodes[0], labels=labels, image="mine/vllm:1")])
    assert "image mine/vllm:1 -> vllm/vllm-openai" in decision.refusals[0]


@pytest.mark.parametrize(
    ("labels", "owner"),
    [({}, "somebody else"), ({"orc.deployment": "other"}, "deployment other")],
)
@pytest.mark.parametrize("replace_it", [False, True])
@pytest.mark.parametrize("status", ["running", "exited"])
def test_a_container_of_that_name_that_is_not_ours_is_refused_always(
    plan: Plan, labels: dict[str, str], owner: str, replace_it: bool, status: str
) -> None:
    foreign = running(plan.nodes[2], labels=labels, status=status)
    decision = decide(plan, [foreign], replace=replace_it)
    assert len(decision.refusals) == 1
    assert "node03: a container named orc-kimi-r1-n0 exists" in decision.refusals[0]
    assert owner in decision.refusals[0]
    assert all(foreign not in d.containers for d in decision.replicas)


def test_a_foreign_container_of_another_name_or_host_is_none_of_ours(plan: Plan) -> None:
    other_name = ContainerState("node01", "1", "postgres", "running")
    other_host = ContainerState("node09", "2", plan.nodes[0].name, "running")
    decision = decide(plan, [other_name, other_host])
    assert decision.refusals == ()
    assert [d.action for d in decision.replicas] == ["start", "start"]


def test_a_replica_that_the_plan_no_longer_has_is_refused_or_removed(tmp_path: Path) -> None:
    two = make_plan(tmp_path, FOUR, nodes=2, replicas=2, name="kimi")
    one = make_plan(tmp_path, FOUR, nodes=2, replicas=1, name="kimi")
    states = [running(node) for node in two.nodes]
    assert "replica 1 is not in the plan" in decide(one, states).refusals[0]
    decision = decide(one, states, replace=True)
    assert [d.action for d in decision.replicas] == ["keep", "remove"]
    assert len(decision.replicas[1].containers) == 2


def test_a_rank_that_runs_on_another_host_than_planned_is_a_difference(plan: Plan) -> None:
    moved = running(plan.nodes[1], host="node04")
    decision = decide(plan, [running(plan.nodes[0]), moved])
    assert decision.replicas[0].action == "differs"
    assert "orc-kimi-r0-n1 runs on node04" in decision.refusals[0]
    assert decide(plan, [moved], replace=True).replicas[0].containers == (moved,)


def test_growing_by_a_replica_leaves_the_first_alone(tmp_path: Path) -> None:
    one = make_plan(tmp_path, FOUR, nodes=2, replicas=1, name="kimi")
    two = make_plan(tmp_path, FOUR, nodes=2, replicas=2, name="kimi")
    assert actions(two, [running(node) for node in one.nodes]) == ["keep", "start"]
