"""From hosts, a resolved recipe and the user's constraints to a layout. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from orchestrator.deployment import Deployment
from orchestrator.errors import PlanError
from orchestrator.recipes.kv_transfer import kv_connectors
from orchestrator.recipes.resolved import ModelShape, ResolvedRecipe
from orchestrator.recipes.taxonomy import KvStoreFile
from orchestrator.topology.addresses import check_meeting, check_own
from orchestrator.topology.alternatives import sizes_in_words, with_alternatives
from orchestrator.topology.dense import check_dense
from orchestrator.topology.engine_config import EngineConfig, check_engine_config
from orchestrator.topology.engines import (
    Engine,
    ReplicaShape,
    asked_replicas,
    gpus_of_one,
    replica_shape,
)
from orchestrator.topology.fit import MemoryFit
from orchestrator.topology.group import Group, Member
from orchestrator.topology.layout import GpuRank, Layout, Node, Role, Sizes, Slot
from orchestrator.topology.limits import Mixture, check_shape, redundant_experts
from orchestrator.topology.pipeline import layer_ranges, vllm_layer_split
from orchestrator.topology.placement import Placement, replica_slots
from orchestrator.topology.ports import PortAllotment, port_use
from orchestrator.topology.ranks import gpu_ranks
from orchestrator.topology.sizes import UnworkableSizes, Wiring

DEFAULT_MASTER_PORT = 29501  # vLLM's --master-port
DEFAULT_RPC_PORT = 29550  # vLLM's --data-parallel-rpc-port
DEFAULT_SIDE_CHANNEL_PORT = 5600
SIDE_CHANNEL_PORT = "VLLM_NIXL_SIDE_CHANNEL_PORT"

# Role, sizes, and whether every data-parallel rank is a server: what its checks depend on.
EngineKind = tuple[Role | None, Sizes, bool]


def some_of(names: Sequence[str]) -> str:
    """Names for a note: of many the first eight, and how many more there are."""
    rest = len(names) - 8
    return ", ".join(names[:8]) + (f" and {rest} more" if rest > 0 else "")


def build_layout(
    recipe: ResolvedRecipe,
    slots: Sequence[Slot],
    deployment: Deployment,
    ports: PortAllotment | None = None,
    running: Placement | None = None,
) -> Layout:
    """Who runs what on `slots` (hosts in inventory order), with every port of a known number.

    Replicas that are `running` stay where they are. Raises PlanError with the equation when the
    selection cannot run on these hosts, and the nearest sizes that can.
    """
    try:
        return layout_or_refusal(recipe, slots, deployment, ports, running)
    except UnworkableSizes as refusal:
        raise with_alternatives(refusal, recipe, slots, deployment, layout_or_refusal) from None


def layout_or_refusal(
    recipe: ResolvedRecipe,
    slots: Sequence[Slot],
    deployment: Deployment,
    ports: PortAllotment | None = None,
    running: Placement | None = None,
) -> Layout:
    """As `build_layout`, whose refusals are plain: no other sizes are looked for."""
    shape = replica_shape(recipe, slots, deployment)
    replicas = deployment.replicas
    if recipe.kv_store is not None:
        replicas = _instances(recipe.kv_store, deployment, len(slots) // shape.nodes)
    wanted = replicas if replicas == "max" else replicas * shape.factor
    chosen, unused = replica_slots(slots, shape.nodes, wanted, gpus_of_one(shape), running)
    for replica in chosen:
        for slot in replica:
            check_own(slot)
        if len(replica) > 1:
            check_meeting(replica, "the nodes of a replica meet at these addresses")
    ports = ports or PortAllotment()
    nodes: list[Node] = []
    sizes: dict[str, Sizes] = {}
    others: dict[str, dict[int, None]] = {}  # replicas of other sizes than the first
    fit, needs_router = MemoryFit(recipe, deployment), shape.needs_router
    passed: set[EngineKind] = set()
    for index, replica in enumerate(chosen):
        for engine, members in _share(shape, replica):
            group = _group(engine, members, index, recipe, deployment, ports)
            _check_engine(engine, group, recipe, passed)
            if sizes.setdefault(engine.role or "", group.sizes) != group.sizes:
                others.setdefault(sizes_in_words(group.sizes), {})[index] = None
            needs_router |= sum(member.serves for member in group.members) > 1
            partition = fit.partition(engine.role or "", engine.parts, group, index)
            nodes += _nodes(engine, group, index, partition, recipe.shape, ports)
    # Only behind a router does a prompt find the instance that has its beginning.
    needs_router |= recipe.kv_store is not None and len(chosen) > 1
    notes = [*shape.notes, *fit.notes()]
    for text, indices in others.items():
        word = "replica" if len(indices) == 1 else "replicas"
        notes.append(f"the hosts differ: {text} in {word} {some_of(list(map(str, indices)))}")
    if unused:
        notes.append(f"hosts left over: {some_of(unused)}")
    if recipe.shape.layers is None and any(size.pipeline > 1 for size in sizes.values()):
        notes.append("the model's layer count is not known: the split over stages is vLLM's own")
    return Layout(
        nodes=tuple(nodes),
        sizes=sizes,
        nodes_per_replica=shape.nodes,
        replicas=len(chosen),
        needs_router=needs_router,
        unused=unused,
        notes=tuple(notes),
        memory=fit.memory,
    )


def _instances(store: KvStoreFile, deployment: Deployment, fitting: int) -> int | Literal["max"]:
    """Serving instances in front of a KV store: as asked, else as many as the store's own default
    and the hosts have room for."""
    if deployment.instances is not None or "replicas" in deployment.model_fields_set:
        return asked_replicas(deployment)
    return max(min(store.default_instances, fitting), 1)


def _share(shape: ReplicaShape, replica: tuple[Slot, ...]) -> list[tuple[Engine, tuple[Slot, ...]]]:
    """Which of the replica's slots each engine gets, in order; halves of one node's GPUs."""
    if shape.halved:
        (slot,) = replica
        half = len(slot.gpus) // 2
        if half == 0:
            raise PlanError(
                f"two pools cannot share {slot.host}, which has 1 GPU to use",
                where=slot.host,
                hint="a node for each pool, or more of its GPUs in orc_gpus",
            )
        parts = (slot.gpus[:half], slot.gpus[half : 2 * half])
        return [
            (engine, (replace(slot, gpus=gpus),))
            for engine, gpus in zip(shape.engines, parts, strict=True)
        ]
    shared, first = [], 0
    for engine in shape.engines:
        shared.append((engine, replica[first : first + engine.nodes]))
        first += engine.nodes
    return shared


def _group(
    engine: Engine,
    members: tuple[Slot, ...],
    replica: int,
    recipe: ResolvedRecipe,
    deployment: Deployment,
    ports: PortAllotment,
) -> Group:
    head, role = members[0].host, engine.role or "head"
    master, rpc = DEFAULT_MASTER_PORT, DEFAULT_RPC_PORT
    if len(members) > 1:
        asked = deployment.master_port
        master = ports.take(
            head,
            port_use("master", role, replica, 0),
            asked or DEFAULT_MASTER_PORT,
            exact=asked is not None,
        )
    if engine.rule.data_parallel and (len(members) > 1 or engine.balancing == "external"):
        rpc = ports.take(head, port_use("data_parallel_rpc", role, replica, 0), DEFAULT_RPC_PORT)
    experts = engine.parts.has("--enable-expert-parallel")
    wiring = Wiring(master, rpc, engine.balancing, expert_parallel=experts)
    group = engine.rule.group(members, engine.fixed, wiring)
    if not recipe.mixture_of_experts:
        check_dense(group, recipe.model)
    _check_load_balancing(group, deployment)
    return group


def _check_engine(
    engine: Engine, group: Group, recipe: ResolvedRecipe, passed: set[EngineKind]
) -> None:
    """The sizes and arguments against the model's shape and vLLM's rules, once for each kind."""
    kind = (engine.role, group.sizes, "--data-parallel-rank" in group.members[0].flags)
    if kind in passed:
        return
    parts = engine.parts
    mixture = Mixture(recipe.mixture_of_experts, redundant_experts(parts))
    moves_kv = "NixlConnector" in kv_connectors(parts.arguments)
    # First what other sizes cannot mend, since the sizes that a refusal names have to work.
    check_engine_config(EngineConfig.of(recipe, parts, group))
    check_shape(recipe.shape, group.sizes, recipe.model, mixture, moves_kv=moves_kv)
    passed.add(kind)


def _check_load_balancing(group: Group, deployment: Deployment) -> None:
    """The user's wish holds or is refused: ranks over several nodes are behind one endpoint."""
    asked = deployment.load_balancing
    if asked in ("hybrid", "external") and not all(member.serves for member in group.members):
        unit, nodes = group.sizes.world // group.sizes.data, len(group.members)
        raise PlanError(
            f"load_balancing = {asked}, but a data-parallel rank of {unit} GPUs spans nodes: "
            f"{group.sizes.data} ranks over {nodes} nodes have one endpoint",
            hint="leave load_balancing out, or take a tensor x pipeline size of one node at most",
        )


def _nodes(
    engine: Engine,
    group: Group,
    replica: int,
    partition: tuple[int, ...] | None,
    shape: ModelShape,
    ports: PortAllotment,
) -> list[Node]:
    split = partition
    if split is None and shape.layers is not None:
        split = vllm_layer_split(shape.layers, group.sizes.pipeline)
    stages = tuple(layer_ranges(split)) if split else None
    several = sum(member.serves for member in group.members) > 1
    nodes = []
    for rank, member in enumerate(group.members):
        role: Role = engine.role or ("worker" if rank else "head")
        bound: Mapping[str, int] = member.ports
        if member.serves:
            first = not ports.has(member.slot.host, "api")
            port = ports.take(
                member.slot.host,
                port_use("api", role, replica, rank),
                engine.port,
                exact=engine.exact_port and first,
            )
            bound = {**bound, "api": port}
        if engine.role:
            bound = {**bound, **_side_channel(replica, rank, engine, member, group.sizes, ports)}
        ranks = gpu_ranks(group.sizes, member.first, member.gpus, stages)
        nodes.append(
            Node(
                slot=member.slot,
                replica=replica,
                rank=rank,
                role=role,
                gpus=member.gpus,
                ranks=ranks,
                parallel=member.flags,
                serves=member.serves,
                ports=bound,
                layer_partition=partition,
                data_ranks=_data_ranks(group.sizes, member, ranks, several),
            )
        )
    return nodes


def _data_ranks(
    sizes: Sizes, member: Member, ranks: Sequence[GpuRank], several: bool
) -> tuple[int, ...]:
    """The data-parallel ranks behind a member's endpoint: of `several` its own, else all."""
    if not member.serves or sizes.data == 1:
        return ()
    return tuple(dict.fromkeys(rank.dp for rank in ranks)) if several else (*range(sizes.data),)


def _side_channel(
    replica: int, rank: int, engine: Engine, member: Member, sizes: Sizes, ports: PortAllotment
) -> dict[str, int]:
    """A NIXL side-channel port for each data-parallel rank that has its engine here.

    vLLM adds the rank's data-parallel index to VLLM_NIXL_SIDE_CHANNEL_PORT (0.33.0).
    """
    unit = sizes.world // sizes.data
    first, count = member.first // unit, max(len(member.gpus) // unit, 1)
    if member.first % unit:
        return {}  # a follower: the engine is on an earlier node
    base = str(engine.parts.env.get(SIDE_CHANNEL_PORT, DEFAULT_SIDE_CHANNEL_PORT))
    if not re.fullmatch("[0-9]{1,5}", base):
        raise PlanError(f"{SIDE_CHANNEL_PORT} is a port, not {base!r}")
    wanted = int(base) + first
    use = port_use(f"nixl{first}", engine.role or "head", replica, rank)
    port = ports.take(member.slot.host, use, wanted, count=count)
    return {f"nixl{first + index}": port + index for index in range(count)}
