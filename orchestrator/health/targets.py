"""Which endpoints there are: of a plan, or of the containers that run."""

from __future__ import annotations

import os
from collections.abc import Iterable

from orchestrator.health.endpoint import Target
from orchestrator.planning.address import url
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
    address = url(spec.address, spec.port)
    return Target(
        spec.replica,
        spec.host,
        address,
        spec.served_model,
        secret or own_key(),
        data_ranks(spec.container.labels),
        _health_path(spec.role),
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
            _health_path(state.role),
        )
        for state in states
        if state.running and state.endpoint and state.model
    ]


def _health_path(role: str) -> str:
    """vllm-router's /health is 503 while any worker is unwell; its own is this (0.1.17)."""
    return "/liveness" if role == "router" else "/health"


def own_key() -> Secret | None:
    """The API key that the user gives to orc itself."""
    key = os.environ.get(API_KEY)
    return Secret(key) if key else None
