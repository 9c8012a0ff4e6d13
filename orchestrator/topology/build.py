"""From hosts, a resolved recipe and the user's constraints to a layout. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from orchestrator.deployment import Deployment
from orchestrator.errors import PlanError, did_you_mean
from orchestrator.recipes.resolved import ModelShape, ResolvedRecipe
from orchestrator.topology.data_parallel import data_and_expert, tensor_and_data
from orchestrator.topology.dense import independent_replicas
from orchestrator.topology.group import Group
from orchestrator.topology.layout import Layout, Node, Slot
from orchestrator.topology.limits import check_shape
from orchestrator.topology.pipeline import check_partition, layer_ranges, vllm_layer_split
from orchestrator.topology.placement import check_addresses, replica_slots
from orchestrator.topology.process_group import tensor_and_pipeline, tensor_parallel
from orchestrator.topology.ranks import Sizes, gpu_ranks
from orchestrator.topology.sizes import Fixed, Wiring

DEFAULT_MASTER_PORT = 29501  # vLLM's --master-port
DEFAULT_RPC_PORT = 29550  # vLLM's --data-parallel-rpc-port


@dataclass(frozen=True, slots=True)
class StrategyRule:
    """How a strategy splits one replica over its nodes."""

    group: Callable[[tuple[Slot, ...], Fixed, Wiring], Group]
    multi_node: bool = False
    data_parallel: bool = False


STRATEGIES: dict[str, StrategyRule] = {
    "single_node_tp": StrategyRule(tensor_parallel),
    "single_node_tep": StrategyRule(tensor_parallel),
    "single_node_dep": StrategyRule(data_and_expert, data_parallel=True),
    "multi_node_tp": StrategyRule(tensor_parallel, multi_node=True),
    "multi_node_tep": StrategyRule(tensor_parallel, multi_node=True),
    "multi_node_tp_pp": StrategyRule(tensor_and_pipeline, multi_node=True),
    "multi_node_dep": StrategyRule(data_and_expert, multi_node=True, data_parallel=True),
    "multi_node_tp_dp": StrategyRule(tensor_and_data, multi_node=True, data_parallel=True),
}


def build_layout(
    recipe: ResolvedRecipe, slots: Sequence[Slot], deployment: Deployment, port: int
) -> Layout:
    """Who runs what on `slots` (hosts in inventory order).

    The first API on a host gets `port`, further ones on the same host the ports after it.
    Raises PlanError with the equation when the selection cannot run on these hosts.
    """
    name = recipe.strategy.name
    rule = STRATEGIES.get(name)
    if rule is None:
        raise PlanError(f"strategy {name!r} cannot be planned", hint=did_you_mean(name, STRATEGIES))
    if deployment.load_balancing and not rule.data_parallel:
        raise PlanError(
            f"load_balancing = {deployment.load_balancing}, but strategy {name} has no data "
            "parallel",
            hint="leave load_balancing out, or take a strategy with data parallel",
        )
    fixed = _fixed(recipe, deployment, rule)
    nodes = nodes_per_replica(name, rule, len(slots), deployment)
    replicas = deployment.replicas
    notes: list[str] = []
    if _splits_dense(rule, recipe, deployment, nodes) and len(slots) >= nodes:
        split = independent_replicas(slots[:nodes], fixed, rule.group is tensor_and_data)
        if split:
            rule, nodes, fixed = StrategyRule(tensor_parallel), split.nodes, split.fixed
            replicas = replicas if replicas == "max" else replicas * split.factor
            notes.append(split.note)
    chosen, unused = replica_slots(slots, nodes, replicas, _gpus_of_one(fixed, rule))
    groups = [_group(rule, replica, fixed, recipe, deployment) for replica in chosen]
    sizes = groups[0].sizes
    partition = layer_partition(recipe.shape, sizes, deployment)
    if unused:
        notes.append(f"hosts left over: {', '.join(unused)}")
    if sizes.pipeline > 1 and recipe.shape.layers is None:
        notes.append("the model's layer count is not known: the split over stages is vLLM's own")
    return Layout(
        nodes=_nodes(groups, partition, recipe.shape, port),
        tensor=sizes.tensor,
        pipeline=sizes.pipeline,
        data=sizes.data,
        nodes_per_replica=nodes,
        replicas=len(groups),
        layer_partition=partition,
        unused=unused,
        notes=tuple(notes),
    )


def nodes_per_replica(name: str, rule: StrategyRule, hosts: int, deployment: Deployment) -> int:
    """Nodes of one replica: as asked; else 1, or for a multi-node strategy all hosts shared out.

    Raises PlanError when the strategy and the number contradict each other.
    """
    nodes = deployment.nodes
    if nodes is None:
        if not rule.multi_node:
            return 1
        if deployment.replicas == "max":
            raise PlanError(
                "replicas: max of a multi-node strategy needs the nodes of one replica",
                hint="say nodes: 2, or however many one replica spans",
            )
        nodes = max(hosts // deployment.replicas, 2)
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


def layer_partition(
    shape: ModelShape, sizes: Sizes, deployment: Deployment
) -> tuple[int, ...] | None:
    """The layers of each stage where they differ from vLLM's own split, else None."""
    asked = deployment.layer_partition
    if asked is None:
        return None
    check_partition(asked, sizes.pipeline, shape.layers)
    if shape.layers is not None and asked == vllm_layer_split(shape.layers, sizes.pipeline):
        return None
    return asked


def _fixed(recipe: ResolvedRecipe, deployment: Deployment, rule: StrategyRule) -> Fixed:
    """What the user fixed, else what the recipe fixed."""

    def size(asked: int | None, flag: str) -> int | None:
        given = recipe.fixed_parallel.get(flag)
        return asked if asked is not None or given is None else int(given)

    parallel = deployment.parallel
    tensor = size(parallel.tensor, "--tensor-parallel-size")
    pipeline = size(parallel.pipeline, "--pipeline-parallel-size")
    context = size(parallel.prefill_context, "--prefill-context-parallel-size") or 1
    if tensor is None and pipeline is None and context == 1 and rule.group is tensor_parallel:
        tensor = None if rule.multi_node else recipe.fitted_tensor
    return Fixed(
        tensor=tensor,
        pipeline=pipeline,
        data=size(parallel.data, "--data-parallel-size"),
        prefill_context=context,
        decode_context=size(parallel.decode_context, "--decode-context-parallel-size") or 1,
    )


def _splits_dense(
    rule: StrategyRule, recipe: ResolvedRecipe, deployment: Deployment, nodes: int
) -> bool:
    """Whether a dense model's data parallel must be looked at; internal runs if asked for."""
    dense = not recipe.mixture_of_experts
    return dense and rule.data_parallel and nodes > 1 and deployment.load_balancing != "internal"


def _gpus_of_one(fixed: Fixed, rule: StrategyRule) -> int | None:
    """GPUs of a single-node replica where its sizes are fixed; None: the whole host."""
    unit = (fixed.pipeline or 1) * fixed.prefill_context
    if rule.data_parallel:
        return (fixed.tensor or 1) * unit * fixed.data if fixed.data else None
    return fixed.tensor * unit if fixed.tensor else None


def _group(
    rule: StrategyRule,
    replica: tuple[Slot, ...],
    fixed: Fixed,
    recipe: ResolvedRecipe,
    deployment: Deployment,
) -> Group:
    if len(replica) > 1:
        check_addresses(replica)
    wiring = Wiring(
        master_port=deployment.master_port or DEFAULT_MASTER_PORT,
        rpc_port=DEFAULT_RPC_PORT,
        load_balancing=deployment.load_balancing,
        expert_parallel=any(a.flag == "--enable-expert-parallel" for a in recipe.arguments),
    )
    group = rule.group(replica, fixed, wiring)
    check_shape(recipe.shape, group.sizes, recipe.model)
    return group


def _nodes(
    groups: Sequence[Group], partition: tuple[int, ...] | None, shape: ModelShape, port: int
) -> tuple[Node, ...]:
    servers: Counter[str] = Counter()  # APIs on each host so far
    nodes = []
    for replica, group in enumerate(groups):
        split = partition
        if split is None and shape.layers is not None:
            split = vllm_layer_split(shape.layers, group.sizes.pipeline)
        stages = layer_ranges(split) if split else None
        for rank, member in enumerate(group.members):
            ports = dict(member.ports)
            if member.serves:
                ports["api"] = port + servers[member.slot.host]
                servers[member.slot.host] += 1
            nodes.append(
                Node(
                    slot=member.slot,
                    replica=replica,
                    rank=rank,
                    role="worker" if rank else "head",
                    gpus=member.gpus,
                    ranks=gpu_ranks(group.sizes, member.first, member.gpus, stages),
                    parallel=member.flags,
                    serves=member.serves,
                    ports=ports,
                )
            )
    return tuple(nodes)
