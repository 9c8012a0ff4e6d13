"""One node's launch: what is shown by `orc plan` and what `orc up` runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from orchestrator.runtime.container import Container
from orchestrator.secret import Secret
from orchestrator.topology.layout import GpuRank, Role


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """One rank of one replica on one host.

    `image` is what was asked for. Once a tag has been resolved, `pinned_image` is the digest
    reference that every node runs; it does not count in `spec_hash`.
    """

    deployment: str
    host: str
    replica: int
    rank: int
    role: Role
    gpus: tuple[int, ...]
    ranks: tuple[GpuRank, ...]
    address: str | None
    interface: str | None
    argv: tuple[str, ...]
    env: Mapping[str, str | Secret]
    image: str
    container: Container
    served_model: str
    port: int | None = None  # of its API; None when it is headless
    ports: Mapping[str, int] = field(default_factory=dict)  # every TCP port it binds, by use
    pinned_image: str | None = None

    @property
    def name(self) -> str:
        """The container's name."""
        return self.container.name

    @property
    def command(self) -> list[str]:
        """The full container command, as it is run on the host."""
        raise NotImplementedError

    @property
    def spec_hash(self) -> str:
        """SHA-256 over everything that decides what runs, but for secret values and the digest."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        raise NotImplementedError
