"""Which endpoints there are: of a plan, or of the containers that run."""

from __future__ import annotations

import os
from collections.abc import Iterable

from orchestrator.health.endpoint import Target
from orchestrator.planning.health_check import health_path
from orchestrator.planning.launch_spec import LaunchSpec
from orchestrator.planning.plan import Plan
from orchestrator.runtime.containers import ContainerState, data_ranks
from orchestrator.secret import Secret

API_KEY = "VLLM_API_KEY"  # vLLM reads its own from this name, and so does orc


def plan_targets(plan: Plan) -> list[Target]:
    """The endpoints of a plan, with the API key that it gives them."""
    return [spec_target(spec, plan) for spec in plan.nodes if spec.port is not None]


def spec_target(spec: LaunchSpec, plan: Plan) -> Target:
    """The endpoint of a node, or of the router, which passes the nodes' API key on."""
    key = spec.env.get(API_KEY) or plan.nodes[0].env.get(API_KEY)
    secret = Secret(key) if isinstance(key, str) else key
    check = spec.health
    assert check.url is not None, f"{spec.name} serves nothing"
    return Target(
        spec.replica,
        spec.host,
        check.url,
        check.model,
        secret or own_key(),
        check.data_ranks,
        check.path,
    )


def running_targets(states: Iterable[ContainerState]) -> list[Target]:
    """The endpoints of running containers, by their labels."""
    return [
        Target(
            state.replica,
            state.host,
            state.endpoint,
            state.model,
            own_key(),
            data_ranks(state.labels),
            health_path(state.role),
        )
        for state in states
        if state.running and state.endpoint and state.model
    ]


def own_key() -> Secret | None:
    """The API key that the user gives to orc itself."""
    key = os.environ.get(API_KEY)
    return Secret(key) if key else None
