"""Which endpoints there are: of a plan, or of the containers that run."""

from __future__ import annotations

import os
from collections.abc import Iterable

from orchestrator.health.endpoint import Target
from orchestrator.planning.plan import Plan
from orchestrator.runtime.containers import ContainerState
from orchestrator.secret import Secret

API_KEY = "VLLM_API_KEY"  # vLLM reads its own from this name, and so does orc


def plan_targets(plan: Plan) -> list[Target]:
    """The endpoints of a plan, with the API key that it gives them."""
    nodes = {(node.replica, node.host): node for node in plan.nodes}
    targets = []
    for endpoint in plan.endpoints:
        node = nodes[endpoint.replica, endpoint.host]
        key = node.env.get(API_KEY)
        if key is None and "--api-key" in node.argv[:-1]:
            key = node.argv[node.argv.index("--api-key") + 1]
        secret = Secret(key) if isinstance(key, str) else key
        targets.append(
            Target(
                endpoint.replica, endpoint.host, endpoint.url, endpoint.model, secret or own_key()
            )
        )
    return targets


def running_targets(states: Iterable[ContainerState]) -> list[Target]:
    """The endpoints of running containers, by their labels."""
    return [
        Target(state.replica, state.host, state.endpoint, state.model, own_key())
        for state in states
        if state.running and state.endpoint and state.model
    ]


def own_key() -> Secret | None:
    """The API key that the user gives to orc itself."""
    key = os.environ.get(API_KEY)
    return Secret(key) if key else None
