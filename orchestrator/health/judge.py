"""Is a replica healthy, still starting, or failed: a pure function of what was seen of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from orchestrator.health.endpoint import EndpointCheck
from orchestrator.runtime.containers import ContainerState, HostObservation

# A completion that ends in a 5xx so many times in a row will not mend itself.
COMPLETION_FAILURES = 3


@dataclass(frozen=True, slots=True)
class RankKey:
    """A rank of a replica: where it runs, and its container's name."""

    host: str
    name: str
    rank: int


@dataclass(frozen=True, slots=True)
class HostLook:
    """The latest look at a host: what was seen, or why it could not be reached."""

    began: float  # monotonic
    observation: HostObservation | None = None
    unreachable: str | None = None


@dataclass(frozen=True, slots=True)
class EndpointLook:
    """The latest look at an endpoint, and how many completions failed in a row before it."""

    ended: float  # monotonic
    check: EndpointCheck
    failures: int = 0


@dataclass(frozen=True, slots=True)
class RankProblem:
    """A rank that ended, or is missing. `state` is its container, when it still exists."""

    rank: RankKey
    reason: str
    state: ContainerState | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """`waiting` says what for. `failed` has problems by the time of death, earliest first."""

    state: Literal["waiting", "healthy", "failed"]
    detail: str = ""
    problems: tuple[RankProblem, ...] = ()
    unreachable: Mapping[str, str] = field(default_factory=dict)


def judge(
    ranks: Sequence[RankKey],
    looks: Mapping[str, HostLook],
    endpoints: Sequence[EndpointLook | None],
    *,
    started: float,
    restarts: Mapping[str, int] | None = None,
) -> Verdict:
    """Judge one replica.

    Healthy: every rank's container was seen running after the completion of every endpoint
    came. Failed: any rank ended, whatever its exit status (an engine that dies can exit 0), or
    an endpoint that waiting cannot mend. A host that cannot be reached is no dead rank.

    `endpoints` are the replica's (several under data parallel), None where not looked at yet;
    `started` is the (monotonic) time after which a look counts; `restarts` the restart count
    per container name at that time.
    """
    problems, unknown, unreachable = _ranks(ranks, looks, started, restarts or {})
    if problems:
        return Verdict("failed", _summary(problems), tuple(problems), unreachable)
    looked = [endpoint for endpoint in endpoints if endpoint is not None]
    fatal = next(filter(None, map(_fatal, looked)), None)
    if fatal:
        return Verdict("failed", fatal, unreachable=unreachable)
    if unknown:
        return Verdict("waiting", _waiting_for(unknown), unreachable=unreachable)
    if len(looked) < len(endpoints):
        return Verdict("waiting", "the containers run; the endpoint was not looked at yet")
    for endpoint in looked:
        if not endpoint.check.healthy:
            return Verdict("waiting", endpoint.check.detail)
    completed = max((endpoint.ended for endpoint in looked), default=started)
    if any(looks[rank.host].began < completed for rank in ranks):
        return Verdict("waiting", "a completion came; looking at every rank once more")
    return Verdict("healthy")


def _ranks(
    ranks: Sequence[RankKey],
    looks: Mapping[str, HostLook],
    started: float,
    restarts: Mapping[str, int],
) -> tuple[list[RankProblem], dict[str, str], dict[str, str]]:
    problems: list[RankProblem] = []
    unknown: dict[str, str] = {}
    unreachable: dict[str, str] = {}
    for rank in ranks:
        look = looks.get(rank.host)
        if look is None or look.began < started:
            unknown[rank.host] = "not looked at yet"
        elif look.unreachable is not None:
            unknown[rank.host] = unreachable[rank.host] = look.unreachable
        elif look.observation is None or look.observation.error:
            unknown[rank.host] = look.observation.error or "" if look.observation else ""
        else:
            problem = _rank_problem(rank, look.observation, restarts.get(rank.name, 0))
            if problem:
                problems.append(problem)
    problems.sort(key=_moment, reverse=True)
    return problems, unknown, unreachable


def _rank_problem(
    rank: RankKey, observation: HostObservation, restarts_before: int
) -> RankProblem | None:
    state = next((s for s in observation.containers if s.name == rank.name), None)
    if state is None:
        return RankProblem(rank, "its container is gone: it was removed by somebody")
    if not state.running:
        return RankProblem(rank, state.ending(), state)
    if state.restart_count > restarts_before:
        again = state.restart_count - restarts_before
        return RankProblem(rank, f"it ended and docker restarted it, {again} times", state)
    return None


def _moment(problem: RankProblem) -> float:
    """Seconds since the death: the largest died first; what never started counts as first."""
    state = problem.state
    if state is not None and state.status == "created":
        return float("inf")
    return state.ended_seconds_ago or 0.0 if state else 0.0


def _fatal(endpoint: EndpointLook) -> str | None:
    check = endpoint.check
    if check.final:
        return check.detail
    if endpoint.failures >= COMPLETION_FAILURES:
        return f"{check.detail} ({endpoint.failures} times in a row)"
    return None


def _summary(problems: Sequence[RankProblem]) -> str:
    first = problems[0]
    more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
    return f"rank {first.rank.rank} on {first.rank.host}: {first.reason}{more}"


def _waiting_for(unknown: Mapping[str, str]) -> str:
    return "; ".join(f"{host}: {why}" for host, why in unknown.items())
