"""The commands that a resolved recipe comes to, on hosts that are not there yet: for showing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.deployment import Deployment
from orchestrator.recipes.resolved import ResolvedRecipe
from orchestrator.topology.build import build_layout
from orchestrator.topology.engines import STRATEGIES
from orchestrator.topology.layout import Slot


@dataclass(frozen=True, slots=True)
class NodeCommand:
    """One process: what it is called, its words, and its environment.

    `complete` is false where the flags of its layout are not known before there are hosts.
    """

    label: str
    argv: list[str]
    env: Mapping[str, str]
    port: int = 8000
    complete: bool = True


def node_commands(recipe: ResolvedRecipe, deployment: Deployment, nodes: int) -> list[NodeCommand]:
    """One command per node, rank 0 first, or one per pool; addresses are placeholders.

    Raises PlanError when so many hosts cannot run it.
    """
    if recipe.pools:
        return [
            NodeCommand(
                label=f"{role}: {pool.nodes} node{'s' * (pool.nodes > 1)}, {pool.parallelism}",
                argv=recipe.pool_argv(pool.parts),
                env=pool.parts.env,
                port=8001 if role == "prefill" else 8002,
                complete=False,
            )
            for role, pool in recipe.pools.items()
        ]
    if recipe.strategy.name not in STRATEGIES:
        return [NodeCommand("every node", recipe.argv(), recipe.env, complete=False)]
    wanted = deployment.model_copy(update={"nodes": nodes, "replicas": 1})
    layout = build_layout(recipe, placeholder_slots(recipe, nodes), wanted)
    return [
        NodeCommand(
            label="" if nodes == 1 else f"node {node.rank}",
            argv=recipe.argv(node.parallel),
            env=recipe.env,
            port=deployment.port,
        )
        for node in layout.nodes
    ]


def placeholder_slots(recipe: ResolvedRecipe, nodes: int) -> list[Slot]:
    """Hosts of the recipe's hardware with all their GPUs; the first is at $HEAD_IP."""
    return [
        Slot(
            host=f"node{number + 1}",
            gpus=tuple(range(recipe.hardware.gpu_count)),
            address="$HEAD_IP" if number == 0 else f"$NODE_{number + 1}_IP",
        )
        for number in range(nodes)
    ]
