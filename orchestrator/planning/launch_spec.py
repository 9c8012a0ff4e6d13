"""One node's launch: what is shown by `orc plan` and what `orc up` runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from orchestrator.planning.health_check import HealthCheck
from orchestrator.runtime.container import Container
from orchestrator.runtime.docker_run import run_command
from orchestrator.secret import REDACTED, Secret
from orchestrator.topology.layout import GpuRank, Role

# Read only while a replica starts, so a change of it is no reason to restart one that runs.
START_ONLY = frozenset({"VLLM_ENGINE_READY_TIMEOUT_S"})
# A label: as orc.ports, of what starts later; `HOST:` before them where that is another host.
RESERVED_PORTS = "orc.reserved-ports"
IMAGE = "orc.image"  # a service's, as it was asked for; it counts as the image
NOT_WHAT_RUNS = frozenset({"orc.version", "orc.gpus", RESERVED_PORTS, IMAGE})


@dataclass(frozen=True)
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
    health: HealthCheck
    port: int | None = None  # of its API; None when it is headless
    ports: Mapping[str, int] = field(default_factory=dict)  # every TCP port it binds, by use
    pinned_image: str | None = None

    @property
    def name(self) -> str:
        """The container's name."""
        return self.container.name

    @property
    def files(self) -> Mapping[str, str]:
        """The files that are written on the host and mounted, by their path in the container."""
        return self.container.files

    @cached_property
    def command(self) -> list[str]:
        """The full container command, as it is run on the host."""
        labels = {**self.container.labels, "orc.spec": self.spec_hash}
        image = self.pinned_image or self.image
        return run_command(replace(self.container, labels=labels, image=image))

    @cached_property
    def spec_hash(self) -> str:
        """SHA-256 over what decides what runs.

        Not in it: the values of secrets (a label must not give them away, and another person's
        token is no other deployment), the version of `orc`, ports kept for others, and the digest
        that a tag became.
        """
        labels = {k: v for k, v in self.container.labels.items() if k not in NOT_WHAT_RUNS}
        content = {
            "container": _as_dict(replace(self.container, labels=labels, image=self.image)),
            "env": {k: v for k, v in self.shown_env.items() if k not in START_ONLY},
        }
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def shown_env(self) -> dict[str, str]:
        """The environment by name, secrets redacted: what may be printed."""
        return {
            name: REDACTED if isinstance(value, Secret) else value
            for name, value in sorted(self.env.items())
        }

    def to_dict(self) -> dict[str, Any]:
        """The node in `orc plan --json`; secrets redacted."""
        return {
            "host": self.host,
            "replica": self.replica,
            "rank": self.rank,
            "role": self.role,
            "gpus": list(self.gpus),
            "address": self.address,
            "interface": self.interface,
            "ranks": [_rank_dict(rank) for rank in self.ranks],
            "name": self.name,
            "image": self.pinned_image or self.image,
            "argv": list(self.argv),
            "env": self.shown_env,
            "volumes": list(self.container.volumes),
            "files": dict(self.files),
            "ports": dict(self.ports),
            "health": self.health.to_dict(),
            "command": self.command,
            "spec": self.spec_hash,
        }


def _rank_dict(rank: GpuRank) -> dict[str, Any]:
    return {**_as_dict(rank), "layers": list(rank.layers) if rank.layers else None}


def _as_dict(value: Container | GpuRank) -> dict[str, Any]:
    """The fields of plain data; `dataclasses.asdict` copies them deeply, at 20 times the cost."""
    return {one.name: getattr(value, one.name) for one in fields(value)}
