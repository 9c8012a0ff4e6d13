"""The plan: an immutable answer to who runs what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from orchestrator.deployment import Deployment
from orchestrator.planning.launch_spec import LaunchSpec


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a replica answers: its node and URL."""

    replica: int
    host: str
    url: str
    model: str


@dataclass(frozen=True, slots=True)
class Plan:
    """One LaunchSpec per node, in order of replica and rank."""

    name: str
    deployment: Deployment
    nodes: tuple[LaunchSpec, ...]
    endpoints: tuple[Endpoint, ...]
    router: LaunchSpec | None = None
    notes: tuple[str, ...] = ()

    def replicas(self) -> list[tuple[LaunchSpec, ...]]:
        """The nodes of each replica, which start, fail, stop and restart together."""
        count = 1 + max((node.replica for node in self.nodes), default=-1)
        return [tuple(n for n in self.nodes if n.replica == k) for k in range(count)]

    def pinned(self, image: str) -> Plan:
        """The same plan with every node on `image`, a digest reference."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """What `orc plan --json` prints; secrets redacted."""
        raise NotImplementedError
