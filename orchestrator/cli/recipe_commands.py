"""The commands that a resolved recipe comes to, on hosts that are not there yet: for showing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.deployment import Deployment
from orchestrator.recipes.resolved import ResolvedRecipe
from orchestrator.topology.build import build_layout
from orchestrator.topology.engines import STRATEGIES
from orchestrator.topology.layout import Layout, Slot


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
    """One command per process, rank 0 first, pool by pool; addresses are placeholders.

    `nodes` counts for a strategy without pools, which have sizes of their own. Raises PlanError
    when so many hosts cannot run it.
    """
    layout = placeholder_layout(recipe, deployment, nodes)
    if layout is None:
        return [NodeCommand("every node", recipe.argv(), recipe.env, complete=False)]
    commands = []
    for node in layout.nodes:
        pool = recipe.pools.get(node.role)
        parts = pool.parts if pool else recipe.parts
        label = f"{node.role} node {node.rank}" if pool else f"node {node.rank}"
        commands.append(
            NodeCommand(
                label=label if len(layout.nodes) > 1 else "",
                argv=recipe.pool_argv(parts, node.parallel),
                env=parts.env,
                port=node.port or deployment.port,
            )
        )
    return commands


def placeholder_layout(recipe: ResolvedRecipe, deployment: Deployment, nodes: int) -> Layout | None:
    """One replica on hosts that are not there yet; None where it is not known without hosts.

    Raises PlanError when so many hosts cannot run it.
    """
    if not recipe.pools and recipe.strategy.name not in STRATEGIES:
        return None
    count = None if recipe.pools else nodes
    wanted = deployment.model_copy(update={"nodes": count, "replicas": 1})
    return build_layout(recipe, placeholder_slots(recipe, nodes), wanted)


def node_count(recipe: ResolvedRecipe, deployment: Deployment, fewest: int) -> int:
    """How many hosts are shown, where the recipe needs `fewest`."""
    several = recipe.strategy.deploy_type == "multi_node"
    return deployment.nodes or (max(2, fewest) if several else 1)


def placeholder_slots(recipe: ResolvedRecipe, nodes: int) -> list[Slot]:
    """Hosts of the recipe's hardware with all their GPUs; the first is at $HEAD_IP.

    Under prefill/decode they are the pools' own hosts, at $PREFILL_NODE_1 and so on.
    """
    names = ["$HEAD_IP", *(f"$NODE_{number}_IP" for number in range(2, nodes + 1))]
    if recipe.pools:
        names = [
            f"${role.upper()}_NODE_{number + 1}"
            for role, pool in recipe.pools.items()
            for number in range(pool.nodes)
        ]
    gpus = tuple(range(recipe.hardware.gpu_count))
    return [Slot(host=name.strip("$").lower(), gpus=gpus, address=name) for name in names]
