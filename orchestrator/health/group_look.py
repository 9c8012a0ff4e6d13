"""A supervised group as the latest looks at hosts and endpoints show it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.health.endpoint import Target
from orchestrator.health.judge import HostLook
from orchestrator.health.lookout import Answer
from orchestrator.health.status import missing_ranks
from orchestrator.health.supervise import Canary, GroupLook
from orchestrator.runtime.containers import ContainerState

GroupKey = tuple[str, int]  # deployment, replica (services by their negative numbers)
Members = dict[tuple[str, str], ContainerState]  # by host and name


def remember(
    known: Mapping[GroupKey, Members], looks: Mapping[str, HostLook]
) -> dict[GroupKey, Members]:
    """Every group's containers: what the hosts show now, and of hosts that do not answer what
    they showed last. A group of which nothing is left is not in it."""
    groups: dict[GroupKey, Members] = {}
    for key, members in known.items():
        kept = {place: s for place, s in members.items() if place[0] in unknown_hosts(looks)}
        if kept:
            groups[key] = kept
    for look in looks.values():
        for state in look.observation.containers if look.observation else ():
            if state.deployment and not state.aside:
                key = (state.deployment, state.replica)
                groups.setdefault(key, {})[state.host, state.name] = state
    return groups


def unknown_hosts(looks: Mapping[str, HostLook]) -> dict[str, str]:
    """The hosts that do not answer, or whose docker does not, and why."""
    unknown = {}
    for host, look in looks.items():
        if look.unreachable is not None:
            unknown[host] = look.unreachable.removeprefix(f"{host}: ")
        elif look.observation is None or look.observation.error:
            error = look.observation.error if look.observation else None
            unknown[host] = f"its docker does not answer: {error}"
    return unknown


def group_look(
    members: Members,
    looks: Mapping[str, HostLook],
    *,
    canary: Canary | None,
    holder: str | None,
) -> GroupLook:
    """The group at this moment. A rank that was not seen may be on a host that does not answer."""
    unknown = unknown_hosts(looks)
    seen = [state for state in members.values() if state.host not in unknown]
    missing = missing_ranks(list(members.values()))
    hosts = {state.host for state in members.values()}
    ended = sorted(
        (state for state in seen if not state.running and state.status != "restarting"),
        key=lambda state: -(state.ended_seconds_ago or 0.0),
    )
    ages = [state.up_seconds or 0.0 for state in seen]
    return GroupLook(
        ids=frozenset(state.id for state in members.values()),
        ended=tuple(f"rank {s.rank} on {s.host}: {s.ending()}" for s in ended),
        missing=() if unknown and missing else tuple(missing),
        unknown={host: why for host, why in unknown.items() if host in hosts or missing},
        restarts=sum(state.restart_count for state in seen),
        age=min(ages, default=0.0),
        has_endpoint=any(state.endpoint for state in members.values()),
        canary=canary,
        holder=holder,
    )


@dataclass(frozen=True, slots=True)
class Heard:
    """What a group's endpoints have answered. Moments are monotonic.

    `counted`: answers to questions asked up to here have been taken. `doubt`: a failure that does
    not count yet: its containers may have ended, or somebody may change the deployment, which
    only a look that began after the answer can tell.
    """

    counted: float = 0.0
    doubt: Answer | None = None

    def take(
        self,
        targets: Sequence[Target],
        answers: Mapping[Target, Answer],
        *,
        after: float,
        seen: float,
    ) -> tuple[Canary | None, Heard]:
        """The result that counts now, if any, and what is left to be told.

        A result comes of questions that were asked after `after`, once all endpoints were. `seen`
        is when the oldest of the latest looks, at the hosts and at who holds the lock, began.
        """
        counted = self.counted
        doubt = self.doubt if self.doubt is not None and self.doubt.began > after else None
        answer = _combined(targets, answers, after=max(after, counted))
        if answer is not None:
            counted, doubt = answer.began, doubt or answer
            if answer.canary.result in ("ok", "refused"):
                return answer.canary, Heard(counted)
        if doubt is not None and doubt.ended < seen:
            return doubt.canary, Heard(counted)
        return None, Heard(counted, doubt)


def _combined(
    targets: Sequence[Target], answers: Mapping[Target, Answer], *, after: float
) -> Answer | None:
    """One result of a group's endpoints once all have been asked after a moment: the worst."""
    own = [answers.get(target) for target in targets]
    fresh = [answer for answer in own if answer is not None and answer.began > after]
    if not targets or len(fresh) < len(targets):
        return None
    worst = min(fresh, key=lambda answer: _BADNESS.index(answer.canary.result))
    began, ended = max(a.began for a in fresh), max(a.ended for a in fresh)
    return Answer(began, ended, worst.canary)


_BADNESS = ("failed", "waiting", "refused", "ok")
