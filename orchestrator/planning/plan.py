"""The plan: an immutable answer to who runs what."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from orchestrator.deployment import Deployment
from orchestrator.planning.launch_spec import LaunchSpec
from orchestrator.planning.service import start_order
from orchestrator.topology.layout import GpuMemory, Layout, Slot


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a replica answers: its node and URL."""

    replica: int
    host: str
    url: str
    model: str

    def to_dict(self) -> dict[str, Any]:
        return {
            "replica": self.replica,
            "host": self.host,
            "url": self.url,
            "model": self.model,
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """One LaunchSpec per node, in order of replica and rank."""

    name: str
    deployment: Deployment
    recipe: str
    variant: str
    strategy: str
    hardware: str
    layout: Layout
    nodes: tuple[LaunchSpec, ...]
    endpoints: tuple[Endpoint, ...]
    router: LaunchSpec | None = None
    services: tuple[LaunchSpec, ...] = ()  # of the KV store; they start before the engines
    notes: tuple[str, ...] = ()
    mixture_of_experts: bool = False
    kv_offload: str | None = None  # where KV cache goes beyond GPU memory, or the KV store's name
    hosts: tuple[Slot, ...] = ()  # all it was planned on, in inventory order, used or not

    @property
    def everything(self) -> tuple[LaunchSpec, ...]:
        """Every container: the store's services, the nodes, the router, in the order of start."""
        return (*self.services, *self.nodes, *((self.router,) if self.router else ()))

    @property
    def start_order(self) -> list[list[tuple[LaunchSpec, ...]]]:
        """The groups that start at once, step by step: each when all before it are healthy."""
        groups = {group[0].replica: group for group in self.groups()}
        return [[groups[number] for number in step] for step in start_order(groups)]

    def pool(self, node: LaunchSpec) -> str:
        """`prefill` or `decode` under prefill/decode, else the one engine's, an empty string."""
        return node.role if node.role in self.layout.sizes else ""

    def replicas(self) -> list[tuple[LaunchSpec, ...]]:
        """The nodes of each replica, which start, fail, stop and restart together."""
        return _by_replica(self.nodes)

    def groups(self) -> list[tuple[LaunchSpec, ...]]:
        """The replicas, and the services, which are groups of their own."""
        return _by_replica(self.everything)

    def pinned(self, image: str, reference: str) -> Plan:
        """The same plan with every container of `image` on `reference`, a digest."""

        def pin(spec: LaunchSpec) -> LaunchSpec:
            return replace(spec, pinned_image=reference) if spec.image == image else spec

        return replace(
            self,
            nodes=tuple(map(pin, self.nodes)),
            services=tuple(map(pin, self.services)),
            router=pin(self.router) if self.router else None,
        )

    def to_dict(self) -> dict[str, Any]:
        """What `orc plan --json` prints; secrets redacted."""
        return {
            "name": self.name,
            "recipe": self.recipe,
            "variant": self.variant,
            "strategy": self.strategy,
            "kv_offload": self.kv_offload,
            "hardware": self.hardware,
            "replicas": self.layout.replicas,
            "nodes_per_replica": self.layout.nodes_per_replica,
            "parallel": _parallel(self.layout),
            "memory": [_memory(one) for one in self.layout.memory],
            "nodes": [node.to_dict() for node in self.nodes],
            "endpoints": [endpoint.to_dict() for endpoint in self.endpoints],
            "router": self.router.to_dict() if self.router else None,
            "services": [service.to_dict() for service in self.services],
            "start_order": [
                [spec.name for group in step for spec in group] for step in self.start_order
            ],
            "unused": list(self.layout.unused),
            "notes": list(self.notes),
        }


def _by_replica(specs: Iterable[LaunchSpec]) -> list[tuple[LaunchSpec, ...]]:
    groups: dict[int, list[LaunchSpec]] = {}
    for spec in specs:
        groups.setdefault(spec.replica, []).append(spec)
    return [tuple(groups[index]) for index in sorted(groups)]


def _memory(one: GpuMemory) -> dict[str, Any]:
    """The estimate for a GPU of one stage, in GiB."""
    rounded = {
        name: round(value, 1) if isinstance(value, float) else value
        for name, value in asdict(one).items()
    }
    left = None if one.left is None else round(one.left, 1)
    return {**rounded, "hosts": list(one.hosts), "left": left}


def _parallel(layout: Layout) -> dict[str, Any]:
    """The sizes of the engine; under prefill/decode those of each pool."""
    shown = {pool: asdict(sizes) for pool, sizes in layout.sizes.items()}
    return shown if len(shown) > 1 else next(iter(shown.values()))
