"""Who runs what: the result of a strategy over hosts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Role = Literal["head", "worker", "prefill", "decode", "router", "kv_master", "kv_store"]


@dataclass(frozen=True, slots=True)
class Slot:
    """A host as the topology sees it: which GPUs may be used, and its data-plane address."""

    host: str
    gpus: tuple[int, ...]
    address: str | None
    interface: str | None = None
    gpu_memory: float | None = None  # GiB of each GPU, of the smallest where they differ
    address_source: str = field(default="", compare=False)  # the variable, or what else gave it


@dataclass(frozen=True, slots=True)
class GpuRank:
    """The ranks that vLLM gives one GPU, within its replica.

    `layers` is the half-open range (first, last + 1) that its pipeline stage holds, None when
    the model's layer count is not known.
    """

    gpu: int
    world: int
    dp: int = 0
    pp: int = 0
    tp: int = 0
    pcp: int = 0
    ep: int = 0
    layers: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Sizes:
    """Parallel sizes of one replica. `world` is the number of its GPUs."""

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    prefill_context: int = 1
    decode_context: int = 1  # reuses the tensor ranks: no extra GPUs
    expert_parallel: bool = False

    @property
    def world(self) -> int:
        return self.tensor * self.pipeline * self.data * self.prefill_context


@dataclass(frozen=True, slots=True)
class Node:
    """One vLLM container on one host: a rank of a replica."""

    slot: Slot
    replica: int
    rank: int
    role: Role
    gpus: tuple[int, ...]
    ranks: tuple[GpuRank, ...]
    parallel: tuple[str, ...]  # parallel and rank flags with their values
    serves: bool  # whether it answers HTTP
    ports: Mapping[str, int] = field(default_factory=dict)  # every fixed TCP port it binds, by use
    layer_partition: tuple[int, ...] | None = None  # only where it differs from vLLM's own split
    data_ranks: tuple[int, ...] = ()  # behind its endpoint; empty without data parallel

    @property
    def port(self) -> int | None:
        """The port of its API; None when it is headless."""
        return self.ports.get("api")


@dataclass(frozen=True, slots=True)
class GpuMemory:
    """What one GPU of a pipeline stage has to hold, estimated; all numbers in GiB.

    `weights` None: not known; `least_weights` is what they certainly come to. `kv_cache` is that
    of one sequence of `context` tokens, None where it is not known. `usable` is the share of the
    GPU's memory that vLLM may take.
    """

    pool: str
    stage: int
    hosts: tuple[str, ...]
    layers: int | None
    usable: float
    overhead: float
    weights: float | None = None
    least_weights: float | None = None
    kv_cache: float | None = None
    context: int | None = None

    @property
    def needed(self) -> float:
        return (self.weights or 0) + (self.kv_cache or 0) + self.overhead

    @property
    def left(self) -> float | None:
        """What remains for more KV cache; None when the weights are not known."""
        return None if self.weights is None else self.usable - self.needed


@dataclass(frozen=True, slots=True)
class Layout:
    """Every node of every replica, in inventory order."""

    nodes: tuple[Node, ...]
    # Of the first replica, by pool (prefill, decode); of one engine under "".
    sizes: Mapping[str, Sizes]
    nodes_per_replica: int
    replicas: int
    needs_router: bool = False  # several endpoints that only work behind a router
    unused: tuple[str, ...] = ()  # hosts left over
    notes: tuple[str, ...] = ()
    memory: tuple[GpuMemory, ...] = ()  # of a GPU of each kind of stage, where it can be estimated

    @property
    def layer_partition(self) -> tuple[int, ...] | None:
        """The first replica's that differs from vLLM's own split."""
        return next((node.layer_partition for node in self.nodes if node.layer_partition), None)

    @property
    def containers_per_replica(self) -> int:
        """Nodes of a replica as containers: several on one host count as several."""
        return len(self.nodes) // self.replicas

    @property
    def first_sizes(self) -> Sizes:
        """The sizes of the engine, or of the first pool."""
        return next(iter(self.sizes.values()))
