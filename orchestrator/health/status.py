"""How a deployment stands, from what was seen of its containers and endpoints. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from orchestrator.health.endpoint import EndpointCheck, Target
from orchestrator.health.metrics import Load
from orchestrator.planning.drift import started_alone
from orchestrator.runtime.containers import ContainerState
from orchestrator.runtime.gpu_use import GpuUse

Health = Literal["healthy", "slow", "starting", "failed", "unknown"]


@dataclass(frozen=True, slots=True)
class RankStatus:
    """One rank. `state` is `running`, how it ended, or `missing`."""

    replica: int
    rank: int
    role: str
    host: str | None
    state: str
    fine: bool
    up_seconds: float | None = None
    restart_count: int = 0
    gpus: tuple[GpuUse, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {
            "replica": self.replica,
            "rank": self.rank,
            "role": self.role,
            "host": self.host,
            "state": self.state,
            "up_seconds": self.up_seconds,
            "restart_count": self.restart_count,
            "gpus": [asdict(gpu) for gpu in self.gpus],
        }


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """One replica. `detail` says why it is not healthy; `loads` are by URL, of those endpoints
    that tell; `notes` are what looks wrong with it though it may be healthy."""

    replica: int
    health: Health
    detail: str
    ranks: tuple[RankStatus, ...]
    endpoints: tuple[tuple[Target, EndpointCheck], ...] = ()
    loads: Mapping[str, Load] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {
            "replica": self.replica,
            "health": self.health,
            "detail": self.detail,
            "ranks": [rank.to_dict() for rank in self.ranks],
            "endpoints": [
                {
                    "url": target.url,
                    "host": target.host,
                    "model": target.model,
                    "stage": check.stage,
                    "detail": check.detail,
                    "load": self.loads[target.url].to_dict() if target.url in self.loads else None,
                }
                for target, check in self.endpoints
            ],
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class DeploymentStatus:
    """A deployment: its replicas, in order."""

    name: str
    replicas: tuple[ReplicaStatus, ...]

    @property
    def failed(self) -> bool:
        return any(replica.health in ("failed", "starting") for replica in self.replicas)

    @property
    def unknown(self) -> bool:
        return any(replica.health == "unknown" for replica in self.replicas)

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "replicas": [replica.to_dict() for replica in self.replicas],
        }


def deployment_statuses(
    states: Iterable[ContainerState],
    checks: Mapping[Target, EndpointCheck],
    unknown_hosts: Mapping[str, str],
    loads: Mapping[str, Load] | None = None,
    gpus: Mapping[str, tuple[GpuUse, ...]] | None = None,
    left_out: Collection[str] = (),
) -> list[DeploymentStatus]:
    """Every deployment of which a container was seen; loads are by URL, GPUs by host.

    `left_out` are the URLs to which a router sends no requests.

    A rank that is missing while there are hosts of which nothing is known is unknown, not
    failed: it may be there.
    """
    by_name: dict[str, list[ContainerState]] = {}
    for state in states:
        by_name.setdefault(state.deployment or "", []).append(state)
    seen = _Seen(checks, unknown_hosts, loads or {}, gpus or {}, left_out)
    return [
        DeploymentStatus(name, tuple(_replicas(by_name[name], seen))) for name in sorted(by_name)
    ]


@dataclass(frozen=True, slots=True)
class _Seen:
    """What was seen beside the containers."""

    checks: Mapping[Target, EndpointCheck]
    unknown_hosts: Mapping[str, str]
    loads: Mapping[str, Load]
    gpus: Mapping[str, tuple[GpuUse, ...]]
    left_out: Collection[str]


def _replicas(states: Sequence[ContainerState], seen: _Seen) -> Iterable[ReplicaStatus]:
    for number in sorted({state.replica for state in states}):
        own = sorted((s for s in states if s.replica == number), key=lambda s: s.rank)
        urls = {state.endpoint for state in own if state.endpoint}
        asked = tuple(
            (target, check)
            for target, check in seen.checks.items()
            if target.replica == number and target.url in urls
        )
        yield _replica(number, own, asked, seen)


def _replica(
    number: int,
    states: Sequence[ContainerState],
    endpoints: tuple[tuple[Target, EndpointCheck], ...],
    seen: _Seen,
) -> ReplicaStatus:
    ranks = [_rank(state, seen.gpus.get(state.host, ())) for state in states]
    missing = missing_ranks(states)
    ranks += [_missing(number, rank, seen.unknown_hosts) for rank in missing]
    ranks.sort(key=lambda rank: (rank.role == "decode", rank.rank))
    health, detail = _judge(ranks, states, endpoints, bool(missing and seen.unknown_hosts))
    loads = {
        target.url: seen.loads[target.url] for target, _ in endpoints if target.url in seen.loads
    }
    notes = [
        f"the router sends no requests to {url}" for url in seen.left_out if url in _urls(states)
    ]
    notes += [
        f"{target.url}: no completion could be asked for: {check.detail}"
        for target, check in endpoints
        if check.key_refused
    ]
    notes += _oddities(states)
    return ReplicaStatus(number, health, detail, tuple(ranks), endpoints, loads, tuple(notes))


def _well(check: EndpointCheck) -> bool:
    return check.healthy or (check.key_refused and check.stage != "health")


def _urls(states: Sequence[ContainerState]) -> set[str]:
    return {state.endpoint for state in states if state.endpoint}


def _oddities(states: Sequence[ContainerState]) -> Iterable[str]:
    """What can be told to be wrong without a plan; `orc diff` tells the rest."""
    places: dict[tuple[int, str], str] = {}
    for state in states:
        first = places.setdefault((state.rank, state.role), state.name)
        if first != state.name:
            yield f"{first} and {state.name} both say that they are rank {state.rank}"
        if not state.name.startswith(f"orc-{state.deployment}-"):
            yield f"{state.name} on {state.host} does not have the name that orc gave it"
    images = {state.image for state in states}
    if len(images) > 1:
        yield f"its ranks run different images: {', '.join(sorted(images))}"
    for state in states:
        if late := started_alone(state, states):
            yield f"{state.name} on {state.host} was started {late}"


def missing_ranks(states: Sequence[ContainerState]) -> list[int]:
    """The ranks that should be there and are not. Under prefill/decode each pool counts its own
    from 0, so it is only known how many are missing: they are given the numbers behind."""
    expected = max(state.nodes for state in states)
    present = {state.rank for state in states}
    if len(present) < len(states):
        return list(range(len(states), expected))
    return [rank for rank in range(expected) if rank not in present]


def _rank(state: ContainerState, gpus: tuple[GpuUse, ...]) -> RankStatus:
    return RankStatus(
        replica=state.replica,
        rank=state.rank,
        role=state.role,
        host=state.host,
        state="running" if state.running else state.ending(),
        fine=state.running,
        up_seconds=state.up_seconds,
        restart_count=state.restart_count,
        gpus=tuple(gpu for gpu in gpus if gpu.index in state.gpus),
    )


def _missing(replica: int, rank: int, unknown_hosts: Mapping[str, str]) -> RankStatus:
    if unknown_hosts:
        state = f"not seen; unknown hosts: {', '.join(unknown_hosts)}"
    else:
        state = "missing: no host has its container"
    return RankStatus(replica, rank, "", None, state, fine=bool(unknown_hosts))


def _judge(
    ranks: Sequence[RankStatus],
    states: Sequence[ContainerState],
    endpoints: Sequence[tuple[Target, EndpointCheck]],
    maybe_elsewhere: bool,
) -> tuple[Health, str]:
    dead = [rank for rank in ranks if not rank.fine]
    if dead:
        ages = {(s.role, s.rank): s.ended_seconds_ago or 0.0 for s in states}
        dead.sort(key=lambda rank: -ages.get((rank.role, rank.rank), 0.0))
        named = "; ".join(f"rank {r.rank} on {r.host or 'no host'}: {r.state}" for r in dead)
        return "failed", named
    # /health was well, which is the engine's word; only the completion could not be asked for.
    unwell = [(target, check) for target, check in endpoints if not _well(check)]
    if unwell and all(check.slow for _, check in unwell):
        return "slow", "; ".join(check.detail for _, check in unwell)
    if unwell:
        detail = "; ".join(f"{target.url}: {check.detail}" for target, check in unwell)
        starting = all(check.stage == "connect" for _, check in unwell)
        return ("starting" if starting else "failed"), detail
    if maybe_elsewhere:
        return "unknown", "a rank was not seen, and there are hosts that did not answer"
    if not endpoints and any(state.endpoint for state in states):
        return "failed", "its endpoint was not asked"
    return "healthy", ""
