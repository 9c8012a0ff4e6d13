"""What a replica is made of: one engine, or under prefill/decode one for each pool."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from orchestrator.deployment import Deployment
from orchestrator.errors import PlanError, did_you_mean
from orchestrator.recipes.arguments import value_of
from orchestrator.recipes.resolved import USER, CommandParts, ResolvedPool, ResolvedRecipe
from orchestrator.topology.data_parallel import data_and_expert, tensor_and_data
from orchestrator.topology.dense import independent_replicas
from orchestrator.topology.group import Group
from orchestrator.topology.layout import Role, Slot
from orchestrator.topology.ports import LAST_PORT
from orchestrator.topology.process_group import tensor_and_pipeline, tensor_parallel
from orchestrator.topology.sizes import Fixed, LoadBalancing, Wiring

DEFAULT_PORT = 8000  # vLLM's --port


@dataclass(frozen=True, slots=True)
class StrategyRule:
    """How a strategy splits one engine over its nodes."""

    group: Callable[[tuple[Slot, ...], Fixed, Wiring], Group]
    multi_node: bool = False
    data_parallel: bool = False


STRATEGIES: dict[str, StrategyRule] = {
    "single_node_tp": StrategyRule(tensor_parallel),
    "single_node_tep": StrategyRule(tensor_parallel),
    "single_node_dep": StrategyRule(data_and_expert, data_parallel=True),
    "single_node_dpa_tp": StrategyRule(data_and_expert, data_parallel=True),
    "multi_node_tp": StrategyRule(tensor_parallel, multi_node=True),
    "multi_node_tep": StrategyRule(tensor_parallel, multi_node=True),
    "multi_node_tp_pp": StrategyRule(tensor_and_pipeline, multi_node=True),
    "multi_node_dep": StrategyRule(data_and_expert, multi_node=True, data_parallel=True),
    "multi_node_tp_dp": StrategyRule(tensor_and_data, multi_node=True, data_parallel=True),
}
PREFILL_DECODE = "pd_cluster"
POOLS: dict[str, StrategyRule] = {
    "tp": StrategyRule(tensor_parallel, multi_node=True),
    "tep": StrategyRule(tensor_parallel, multi_node=True),
    "dep": StrategyRule(data_and_expert, multi_node=True, data_parallel=True),
}


@dataclass(frozen=True, slots=True)
class Engine:
    """One parallel group of vLLM processes that answers as one.

    `role` is prefill or decode for a pool; None for an engine whose nodes are head and workers.
    """

    rule: StrategyRule
    nodes: int
    fixed: Fixed
    parts: CommandParts
    port: int
    exact_port: bool
    role: Role | None = None
    balancing: LoadBalancing | None = None


@dataclass(frozen=True, slots=True)
class ReplicaShape:
    """One replica's engines, the hosts it takes, and how many there are to be.

    `halved`: both pools share the one node.
    """

    engines: tuple[Engine, ...]
    nodes: int
    factor: int = 1  # replicas for every one that was asked for
    halved: bool = False
    notes: tuple[str, ...] = ()
    needs_router: bool = False  # its replicas only make sense behind one


def replica_shape(
    recipe: ResolvedRecipe, slots: Sequence[Slot], deployment: Deployment
) -> ReplicaShape:
    """The engines of one replica of `recipe`. Raises PlanError for a contradiction."""
    _check_store(recipe, deployment)
    name = recipe.strategy.name
    if name == PREFILL_DECODE:
        return _prefill_decode(recipe, deployment)
    rule = STRATEGIES.get(name)
    if rule is None:
        raise PlanError(
            f"strategy {name!r} cannot be planned",
            hint=did_you_mean(name, [*STRATEGIES, PREFILL_DECODE]),
        )
    balancing = deployment.load_balancing or _recipes_load_balancing(recipe)
    if deployment.load_balancing and not rule.data_parallel:
        raise PlanError(
            f"load_balancing = {deployment.load_balancing}, but strategy {name} has no data "
            "parallel",
            hint="leave load_balancing out, or take a strategy with data parallel",
        )
    nodes = _nodes(name, rule, len(slots), deployment)
    fixed = _fixed(recipe.parts, deployment)
    if _takes_fitted_size(rule, fixed):
        fixed = replace(fixed, tensor=_fitted_size(recipe, slots))
    elif _fixes_tensor_alone(rule, fixed, deployment):
        fixed = replace(fixed, pipeline=nodes)
    port, exact = _api_port(recipe.parts, deployment)
    engine = Engine(rule, nodes, fixed, recipe.parts, port, exact, balancing=balancing)
    dense = rule.data_parallel and not recipe.mixture_of_experts and balancing != "internal"
    if dense and 1 < nodes <= len(slots):
        split = independent_replicas(slots[:nodes], fixed, rule.group is tensor_and_data)
        if split:
            engine = replace(
                engine, rule=StrategyRule(tensor_parallel), nodes=split.nodes, fixed=split.fixed
            )
            return ReplicaShape(
                (engine,), split.nodes, split.factor, notes=(split.note,), needs_router=True
            )
    return ReplicaShape((engine,), nodes)


def asked_replicas(deployment: Deployment) -> int | Literal["max"]:
    """How many replicas the user asks for; around a KV store they are its instances."""
    return deployment.instances or deployment.replicas


def _check_store(recipe: ResolvedRecipe, deployment: Deployment) -> None:
    """What is said of a KV store needs one, and its instances are the replicas."""
    instances, replicas = deployment.instances, deployment.replicas
    if recipe.kv_store is None:
        if instances is not None:
            raise PlanError(
                f"instances = {instances}, but there is no KV store for them to share",
                hint=f"replicas: {instances}, or a store: kv_offload: kv_store_...",
            )
        if deployment.kv_store:
            raise PlanError(
                f"kv_store sets {', '.join(sorted(deployment.kv_store))}, but there is no KV store",
                hint="leave kv_store out, or name a store: kv_offload: kv_store_...",
            )
    asked = "replicas" in deployment.model_fields_set
    if instances is not None and asked and instances != replicas:
        raise PlanError(
            f"instances = {instances}, but replicas = {replicas}",
            why="the instances in front of a KV store are the replicas",
            hint="give one of the two",
        )


def _recipes_load_balancing(recipe: ResolvedRecipe) -> LoadBalancing | None:
    """Hybrid where the recipe says so; the strategy decides where it says nothing."""
    hybrid = recipe.parts.fixed_parallel.get("--data-parallel-hybrid-lb", "false")
    return None if hybrid == "false" else "hybrid"


def _fixes_tensor_alone(rule: StrategyRule, fixed: Fixed, deployment: Deployment) -> bool:
    """Whether a recipe (not the user) fixes the tensor size inside a node of a pipeline.

    Then a stage is a node, as the recipe was verified, though GPUs of the node stay idle.
    """
    by_recipe = deployment.parallel.tensor is None and fixed.tensor is not None
    return by_recipe and rule.group is tensor_and_pipeline and fixed.pipeline is None


def gpus_of_one(shape: ReplicaShape) -> int | None:
    """GPUs of a single-node replica where its sizes are fixed; None: the whole host."""
    if len(shape.engines) > 1:
        return None
    rule, fixed = shape.engines[0].rule, shape.engines[0].fixed
    unit = (fixed.pipeline or 1) * fixed.prefill_context
    if rule.data_parallel:
        return (fixed.tensor or 1) * unit * fixed.data if fixed.data else None
    return fixed.tensor * unit if fixed.tensor else None


def _takes_fitted_size(rule: StrategyRule, fixed: Fixed) -> bool:
    """One node takes the tensor size that the weights fit into, unless sizes were fixed."""
    free = fixed.tensor is None and fixed.pipeline is None and fixed.prefill_context == 1
    return free and not rule.multi_node and not rule.data_parallel


def _fitted_size(recipe: ResolvedRecipe, slots: Sequence[Slot]) -> int | None:
    """The recipe's tensor size for this hardware, or all GPUs where orc_gpus leaves fewer.

    The first host decides, since it is the one that no added host changes.
    """
    if recipe.fitted_tensor is None or not slots:
        return None
    return min(recipe.fitted_tensor, len(slots[0].gpus))


def _nodes(name: str, rule: StrategyRule, hosts: int, deployment: Deployment) -> int:
    """Nodes of one replica: as asked; else 1, or for a multi-node strategy all hosts shared out."""
    nodes = deployment.nodes
    if nodes is None:
        if not rule.multi_node:
            return 1
        replicas = asked_replicas(deployment)
        if replicas == "max":
            raise PlanError(
                "replicas: max of a multi-node strategy needs the nodes of one replica",
                hint="say nodes: 2, or however many one replica spans",
            )
        return max(hosts // replicas, 2)
    if not rule.multi_node and nodes > 1:
        raise PlanError(
            f"strategy {name} runs on one node, but nodes = {nodes}",
            hint=f"use replicas: {nodes} for {nodes} servers, or a multi-node strategy",
        )
    if rule.multi_node and nodes < 2:
        raise PlanError(
            f"strategy {name} spans nodes, but nodes = {nodes}",
            hint="nodes: 2 or more, or a single-node strategy",
        )
    return nodes


def _prefill_decode(recipe: ResolvedRecipe, deployment: Deployment) -> ReplicaShape:
    for name in {"port", "load_balancing"} & deployment.model_fields_set:
        if (wish := getattr(deployment, name)) is not None:
            raise PlanError(
                f"{name} = {wish} is for one engine, and {PREFILL_DECODE} has two",
                hint=f"leave {name} out; requests go to the router, whose port is router.port",
            )
    pools = [recipe.pools["prefill"], recipe.pools["decode"]]
    if any(item.flag == "--port" and item.layer == USER for item in pools[0].parts.arguments):
        raise PlanError(
            f"--port of your args is for one engine, and {PREFILL_DECODE} has two",
            hint="leave it out; requests go to the router, whose port is router.port",
        )
    total = sum(pool.nodes for pool in pools)
    halved = deployment.nodes == 1 and all(pool.nodes == 1 for pool in pools)
    if deployment.nodes not in (None, total) and not halved:
        shown = " + ".join(f"{pool.role} {pool.nodes}" for pool in pools)
        raise PlanError(
            f"nodes = {deployment.nodes}, but the pools take {shown} = {total} nodes",
            hint=f"nodes: {total}, or other pools: {{prefill: N, decode: M}}"
            + ("; nodes: 1 lets the two pools share it" if total == 2 else ""),
        )
    engines = tuple(_pool_engine(pool, deployment) for pool in pools)
    return ReplicaShape(engines, 1 if halved else total, halved=halved, needs_router=True)


def _pool_engine(pool: ResolvedPool, deployment: Deployment) -> Engine:
    fixed = _fixed(pool.parts, deployment)
    if fixed.tensor is None and pool.parallelism == "dep":
        fixed = replace(fixed, tensor=pool.tensor)
    port, _ = _api_port(pool.parts, Deployment(recipe=deployment.recipe))
    role: Role = "prefill" if pool.role == "prefill" else "decode"
    return Engine(POOLS[pool.parallelism], pool.nodes, fixed, pool.parts, port, False, role)


def _fixed(parts: CommandParts, deployment: Deployment) -> Fixed:
    """What the user fixed, else what the recipe fixed."""

    def size(asked: int | None, flag: str) -> int | None:
        given = parts.fixed_parallel.get(flag)
        return asked if asked is not None or given is None else int(given)

    parallel = deployment.parallel
    return Fixed(
        tensor=size(parallel.tensor, "--tensor-parallel-size"),
        pipeline=size(parallel.pipeline, "--pipeline-parallel-size"),
        data=size(parallel.data, "--data-parallel-size"),
        prefill_context=size(parallel.prefill_context, "--prefill-context-parallel-size") or 1,
        decode_context=size(parallel.decode_context, "--decode-context-parallel-size") or 1,
    )


def _api_port(parts: CommandParts, deployment: Deployment) -> tuple[int, bool]:
    """The API's port, and whether the user asked for it: the user's, the recipe's, or vLLM's."""
    said = next((item for item in parts.arguments if item.flag == "--port"), None)
    asked = "port" in deployment.model_fields_set
    if said is None:
        return deployment.port, asked
    given = value_of(said)
    if asked and str(deployment.port) != given:
        raise PlanError(
            f"port = {deployment.port}, but the arguments say --port {given}",
            hint="give the port once: port",
        )
    if not re.fullmatch("[0-9]{1,5}", given) or not 1 <= int(given) <= LAST_PORT:
        raise PlanError(f"--port is 1 to {LAST_PORT}, not {given!r}")
    return int(given), asked or said.layer == USER
