"""Every TCP port that a deployment binds, allotted per host without a collision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from orchestrator.errors import PlanError

LAST_PORT = 65535


@dataclass(frozen=True, slots=True)
class PortUse:
    """What is known of ports on the hosts, from facts and from running containers.

    `busy`: by host, the ports of others with their owner. `held`: by host, the ports that this
    deployment's containers hold already, by use; they are taken again, so that a second plan
    is the same as the first.
    """

    busy: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    held: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def port_use(kind: str, role: str, replica: int, rank: int) -> str:
    """How a port's use is named in `PortUse.held`: `api head 0.0`, `master head 1.0`."""
    return f"{kind} {role} {replica}.{rank}"


_KINDS = {
    "api": "API",
    "master": "master port",
    "data_parallel_rpc": "data-parallel RPC",
    "mooncake": "RPC",
    "mooncake_metrics": "metrics",
    "mooncake_store": "REST API",
}


def port_in_words(use: str) -> str:
    """A `port_use` as a user would say it: `API of replica 0`, `metrics of the router`."""
    kind, role, place = use.split(" ")
    replica, _, rank = place.rpartition(".")
    if kind.startswith("nixl"):
        what = f"NIXL side channel of data-parallel rank {kind.removeprefix('nixl')}"
    else:
        what = _KINDS.get(kind, kind)
    services = {
        "router": "the router",
        "kv_master": "the KV store's master",
        "kv_store": f"the KV store's service {rank}",
    }
    if role in services:
        return f"{what} of {services[role]}"
    pool = f"the {role} pool of " if role in ("prefill", "decode") else ""
    which = "" if rank == "0" else f"rank {rank} of "
    return f"{what} of {which}{pool}replica {replica}"


@dataclass(slots=True)
class PortAllotment:
    """Hands out ports while a layout is built."""

    use: PortUse = field(default_factory=PortUse)
    _taken: dict[str, dict[int, str]] = field(default_factory=dict)

    def take(self, host: str, use: str, wanted: int, *, count: int = 1, exact: bool = False) -> int:
        """`count` free ports in a row on `host` for `use`, from `wanted` upwards; the first one.

        `exact`: the user asked for `wanted`, so a taken one is refused instead of passed over.
        Raises PlanError naming host, port and owner.
        """
        held = self.use.held.get(host, {}).get(use)
        start = held if held is not None and not exact else wanted
        port = start
        while port + count - 1 <= LAST_PORT:
            owners = [self._owner(host, port + step) for step in range(count)]
            if not any(owners):
                taken = self._taken.setdefault(host, {})
                taken.update(dict.fromkeys(range(port, port + count), use))
                return port
            if exact:
                owner = next(owner for owner in owners if owner)
                raise PlanError(
                    f"port {port} ({port_in_words(use)}) is taken on {host} by {owner}",
                    where=host,
                    hint="choose another port, or leave it out and a free one is taken",
                )
            port += 1
        raise PlanError(
            f"no free port from {wanted} upwards on {host} for the {port_in_words(use)}", where=host
        )

    def has(self, host: str, kind: str) -> bool:
        """Whether a port of that kind (`api`) was handed out on `host` already."""
        taken = self._taken.get(host, {})
        return any(use.partition(" ")[0] == kind for use in taken.values())

    def _owner(self, host: str, port: int) -> str | None:
        busy, taken = self.use.busy.get(host, {}), self._taken.get(host, {})
        if port in busy:
            return busy[port]
        return f"the {port_in_words(taken[port])}" if port in taken else None
