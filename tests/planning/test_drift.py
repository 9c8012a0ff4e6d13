"""What differs between a plan and what runs, by field. With real docker: tests/e2e/test_diff.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator import Plan
from orchestrator.planning.drift import NodeDrift, drift_lines, find_drift, open_variables
from orchestrator.planning.launch_spec import LaunchSpec
from orchestrator.runtime.container_details import ContainerDetails, HostDetails, Variable
from orchestrator.runtime.containers import ContainerState
from orchestrator.runtime.docker_options import options_of_run
from orchestrator.secret import Secret
from tests.planning.builders import make_plan
from tests.planning.test_decision import running

SALT = "abcd"


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return make_plan(tmp_path, nodes=2, name="kimi", env={"HF_TOKEN": "hf_value", "MODE": "calm"})


def details_of(specs: tuple[LaunchSpec, ...]) -> dict[str, HostDetails]:
    """What the hosts say where every container is as planned."""
    found = {}
    for spec in specs:
        state = running(spec)
        env = {name: _variable(name, value) for name, value in spec.env.items()}
        details = ContainerDetails(state.id, "sha256:1", options_of_run(spec.command), env)
        found[spec.host] = HostDetails({state.id: details})
    return found


def _variable(name: str, value: str | Secret) -> Variable:
    secret = value if isinstance(value, Secret) else Secret(value)
    return Variable(secret.digest(f"{SALT}{name}="), None if secret is value else str(value))


def differences(
    plan: Plan,
    states: list[ContainerState],
    change: Callable[[dict[str, HostDetails]], None] = lambda _: None,
    unknown: tuple[str, ...] = (),
) -> list[tuple[str, str]]:
    """(container, difference) each."""
    details = details_of(plan.nodes)
    change(details)
    drift = find_drift(plan, states, details, SALT, unknown)
    return [(node.name, str(one)) for node in drift for one in node.differences]


def test_what_runs_as_planned_does_not_differ(plan: Plan) -> None:
    states = [running(node) for node in plan.nodes]
    assert differences(plan, states) == []
    assert drift_lines(find_drift(plan, states, details_of(plan.nodes), SALT)) == []


def test_a_rank_that_was_started_by_itself_is_found_by_its_age(plan: Plan) -> None:
    head, worker = (running(node, up_seconds=3600.0) for node in plan.nodes)
    late = replace(worker, up_seconds=600.0)
    assert differences(plan, [head, late]) == [
        (late.name, "started: 3000 s after the others -> with the other ranks")
    ]
    assert differences(plan, [head, replace(worker, up_seconds=3570.0)]) == []


def test_of_a_host_that_did_not_answer_nothing_is_said(plan: Plan) -> None:
    head, worker = plan.nodes
    assert differences(plan, [running(head)], unknown=(worker.host,)) == []
    assert differences(plan, [running(head)]) == [(worker.name, "container: (not set) -> running")]


def test_what_is_in_the_way_and_of_somebody_else_is_said_to_be(plan: Plan) -> None:
    head, worker = (running(node) for node in plan.nodes)
    foreign = replace(worker, labels={})
    assert differences(plan, [head, foreign]) == [
        (worker.name, "container: of somebody else -> running")
    ]


def test_what_a_roll_has_put_aside_is_no_drift(plan: Plan) -> None:
    states = [running(node) for node in plan.nodes]
    aside = replace(states[0], id="x", name=f"{states[0].name}-before", status="exited")
    assert differences(plan, [*states, aside]) == []


def test_another_secret_is_told_apart_and_not_shown(plan: Plan) -> None:
    head = plan.nodes[0]
    states = [running(node) for node in plan.nodes]

    def change(details: dict[str, HostDetails]) -> None:
        (one,) = details[head.host].containers.values()
        env = {**one.env, "HF_TOKEN": Variable("0" * 64)}
        details[head.host] = HostDetails({one.id: replace(one, env=env)})

    found = differences(plan, states, change)
    assert found == [(head.name, "environment HF_TOKEN: <secret> (another) -> <secret>")]
    assert "HF_TOKEN" not in open_variables(plan) and "MODE" in open_variables(plan)


def test_a_variable_that_is_read_only_at_the_start_does_not_count(plan: Plan) -> None:
    head = plan.nodes[0]
    states = [running(node) for node in plan.nodes]

    def change(details: dict[str, HostDetails]) -> None:
        (one,) = details[head.host].containers.values()
        env = {**one.env, "VLLM_ENGINE_READY_TIMEOUT_S": Variable("0" * 64, "1")}
        details[head.host] = HostDetails({one.id: replace(one, env=env)})

    assert differences(plan, states, change) == []


def test_another_spec_without_a_field_that_tells_is_still_a_difference(plan: Plan) -> None:
    head, worker = (running(node) for node in plan.nodes)
    labels = {**head.labels, "orc.spec": "f" * 64}
    other = replace(head, labels=labels, image=plan.nodes[0].image)
    ((name, text),) = differences(plan, [other, worker])
    assert name == head.name and text.startswith("label orc.spec: ffffffffffff -> ")


@pytest.mark.parametrize(("local", "differs"), [("sha256:1", False), ("sha256:2", True)])
def test_a_tag_counts_by_what_it_means_on_the_host(plan: Plan, local: str, differs: bool) -> None:
    states = [running(node, image_id="sha256:1") for node in plan.nodes]

    def change(details: dict[str, HostDetails]) -> None:
        for node in plan.nodes:
            images = {node.image: local}
            details[node.host] = replace(details[node.host], images=images)

    found = [text.partition(":")[0] for _, text in differences(plan, states, change)]
    assert found == (["image"] * len(plan.nodes) if differs else [])


def test_drift_by_hand_is_told_from_another_plan(plan: Plan) -> None:
    stopped = [running(node, status="exited", exit_code=137) for node in plan.nodes]
    drift: list[NodeDrift] = find_drift(plan, stopped, {}, SALT)
    assert [node.by_hand for node in drift] == [True, True]
    other = make_plan_of(plan)
    assert [node.by_hand for node in find_drift(other, stopped, {}, SALT)] == [False, False]


def make_plan_of(plan: Plan) -> Plan:
    """The same plan with another environment."""
    nodes = tuple(replace(node, env={**node.env, "MODE": "wild"}) for node in plan.nodes)
    return replace(plan, nodes=nodes)
