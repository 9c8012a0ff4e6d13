"""From hosts, a resolved recipe and the user's constraints to a layout. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from orchestrator.deployment import Deployment
from orchestrator.errors import PlanError, did_you_mean
from orchestrator.recipes.resolved import ModelShape, ResolvedRecipe
from orchestrator.topology.flags import parallel_flags, rank_flags
from orchestrator.topology.layout import Layout, Node, Slot
from orchestrator.topology.limits import check_shape
from orchestrator.topology.multi_node import multi_node_tp, multi_node_tp_pp
from orchestrator.topology.pipeline import check_partition, layer_ranges, vllm_layer_split
from orchestrator.topology.placement import check_addresses, replica_slots
from orchestrator.topology.ranks import Sizes, gpu_ranks
from orchestrator.topology.single_node import single_node_tp
from orchestrator.topology.sizes import Fixed

DEFAULT_MASTER_PORT = 29501  # vLLM's --master-port

STRATEGIES: dict[str, Callable[[tuple[Slot, ...], Fixed], Sizes]] = {
    "single_node_tp": single_node_tp,
    "multi_node_tp": multi_node_tp,
    "multi_node_tp_pp": multi_node_tp_pp,
}


def build_layout(
    recipe: ResolvedRecipe, slots: Sequence[Slot], deployment: Deployment, port: int
) -> Layout:
    """Who runs what on `slots` (hosts in inventory order); `port` is that of every API.

    Raises PlanError with the equation when the selection cannot run on these hosts.
    """
    strategy = STRATEGIES.get(recipe.strategy.name)
    if strategy is None:
        raise PlanError(
            f"strategy {recipe.strategy.name!r} cannot be planned",
            hint=did_you_mean(recipe.strategy.name, STRATEGIES),
        )
    nodes = nodes_per_replica(recipe, len(slots), deployment)
    replicas, unused = replica_slots(slots, nodes, deployment.replicas)
    fixed = _fixed(recipe, deployment)
    planned: list[Node] = []
    sizes, partition = Sizes(), None
    for index, replica in enumerate(replicas):
        if nodes > 1:
            check_addresses(replica)
        sizes = strategy(replica, fixed)
        check_shape(recipe.shape, sizes, recipe.model)
        partition = layer_partition(recipe.shape, sizes, deployment)
        planned += _replica_nodes(index, replica, sizes, partition, recipe.shape, deployment, port)
    return Layout(
        nodes=tuple(planned),
        tensor=sizes.tensor,
        pipeline=sizes.pipeline,
        data=sizes.data,
        nodes_per_replica=nodes,
        replicas=len(replicas),
        layer_partition=partition,
        unused=unused,
        notes=_notes(unused, sizes, recipe.shape),
    )


def nodes_per_replica(recipe: ResolvedRecipe, hosts: int, deployment: Deployment) -> int:
    """Nodes of one replica: as asked; else 1, or for a multi-node strategy all hosts shared out.

    Raises PlanError when the strategy and the number contradict each other.
    """
    single = recipe.strategy.deploy_type == "single_node"
    nodes = deployment.nodes
    if nodes is None:
        if single:
            return 1
        if deployment.replicas == "max":
            raise PlanError(
                "replicas: max of a multi-node strategy needs the nodes of one replica",
                hint="say nodes: 2, or however many one replica spans",
            )
        nodes = max(hosts // deployment.replicas, 2)
    if single and nodes > 1:
        raise PlanError(
            f"strategy {recipe.strategy.name} runs on one node, but nodes = {nodes}",
            hint=f"use replicas: {nodes} for {nodes} servers, or a multi-node strategy",
        )
    if not single and nodes < 2:
        raise PlanError(
            f"strategy {recipe.strategy.name} spans nodes, but nodes = {nodes}",
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


def _fixed(recipe: ResolvedRecipe, deployment: Deployment) -> Fixed:
    """What the user fixed, else what the recipe fixed."""

    def size(asked: int | None, flag: str) -> int | None:
        given = recipe.fixed_parallel.get(flag)
        return asked if asked is not None or given is None else int(given)

    parallel = deployment.parallel
    tensor = size(parallel.tensor, "--tensor-parallel-size")
    pipeline = size(parallel.pipeline, "--pipeline-parallel-size")
    if tensor is None and pipeline is None and recipe.strategy.deploy_type == "single_node":
        tensor = recipe.fitted_tensor
    return Fixed(
        tensor=tensor,
        pipeline=pipeline,
        data=size(parallel.data, "--data-parallel-size"),
        decode_context=size(parallel.decode_context, "--decode-context-parallel-size") or 1,
    )


def _replica_nodes(
    index: int,
    replica: tuple[Slot, ...],
    sizes: Sizes,
    partition: tuple[int, ...] | None,
    shape: ModelShape,
    deployment: Deployment,
    port: int,
) -> list[Node]:
    per_node = sizes.world // len(replica)
    split = partition
    if split is None and shape.layers is not None:
        split = vllm_layer_split(shape.layers, sizes.pipeline)
    stages = layer_ranges(split) if split else None
    head = replica[0].address or ""
    master_port = deployment.master_port or DEFAULT_MASTER_PORT
    nodes = []
    for rank, slot in enumerate(replica):
        gpus = slot.gpus[:per_node]
        flags = parallel_flags(sizes) + rank_flags(len(replica), rank, head, master_port)
        nodes.append(
            Node(
                slot=slot,
                replica=index,
                rank=rank,
                role="worker" if rank else "head",
                gpus=gpus,
                ranks=gpu_ranks(sizes, rank * per_node, gpus, stages),
                parallel=flags,
                serves=rank == 0,
                port=None if rank else port,
            )
        )
    return nodes


def _notes(unused: tuple[str, ...], sizes: Sizes, shape: ModelShape) -> tuple[str, ...]:
    notes = []
    if unused:
        notes.append(f"hosts left over: {', '.join(unused)}")
    if sizes.pipeline > 1 and shape.layers is None:
        notes.append(
            "the model's layer count is not known, so the split over "
            f"{sizes.pipeline} stages is vLLM's own"
        )
    return tuple(notes)
