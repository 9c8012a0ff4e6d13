"""What to do about a group under `orc watch`: what was seen and the clock in, decisions out.

Pure. A group has one fate: the end of any rank, or an endpoint whose completions fail again and
again, stops all of it, and after a pause it is started whole. What cannot be seen is not dead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

HOUR = 3600.0

Phase = Literal["starting", "healthy", "pausing", "failed", "aside"]
Kind = Literal["note", "warning", "ok", "failed"]


@dataclass(frozen=True, slots=True)
class Policy:
    """Seconds, and counts: `canary_failures` in a row are one failure of the group; after
    `budget` restarts within an hour the next failure is the last."""

    canary_failures: int = 3
    start_timeout: float = 45 * 60.0
    first_pause: float = 10.0
    longest_pause: float = 300.0
    budget: int = 5

    def pause(self, restarts: int) -> float:
        """Before the next restart, after so many within the last hour."""
        return float(min(self.first_pause * 2**restarts, self.longest_pause))


@dataclass(frozen=True, slots=True)
class Canary:
    """How a completion went. `waiting`: nothing answers there; `refused`: it wants another key,
    so nothing is known of the completion."""

    result: Literal["ok", "failed", "waiting", "refused"]
    detail: str = ""


@dataclass(frozen=True, slots=True)
class GroupLook:
    """A group at one moment.

    `ids` are its containers; `ended` says of each rank that does not run why; `missing` are the
    ranks of which no host has a container; `unknown` the hosts that did not answer, which may
    have them. `restarts` is how often docker itself restarted containers, `age` how many seconds
    the youngest has been up. `canary` is what has come since the last look, if anything has.
    `holder` is who else changes the deployment now.
    """

    ids: frozenset[str] = frozenset()
    ended: tuple[str, ...] = ()
    missing: tuple[int, ...] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)
    restarts: int = 0
    age: float = 0.0
    has_endpoint: bool = True
    canary: Canary | None = None
    holder: str | None = None


@dataclass(frozen=True, slots=True)
class GroupState:
    """What is remembered of a group. Moments are in seconds of the clock that `step` is given."""

    phase: Phase
    since: float
    ids: frozenset[str] = frozenset()
    failures: int = 0  # of the canary, in a row
    restarts: tuple[float, ...] = ()  # moments of the last hour's
    docker_restarts: int = 0
    until: float = 0.0  # the end of the last pause; 0: it was adopted as it is
    told: frozenset[str] = frozenset()  # what is said once: hosts that do not answer, and so on


@dataclass(frozen=True, slots=True)
class Say:
    """Something worth knowing. `failed` is said loudly: nothing more will be done."""

    kind: Kind
    text: str


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop every rank that can be reached; the containers stay. `final`: for good."""

    reason: str
    final: bool = False


@dataclass(frozen=True, slots=True)
class Start:
    """Start all ranks, the same containers, at once."""


Decision = Say | Stop | Start
Step = tuple[GroupState, tuple[Decision, ...]]


def adopt(look: GroupLook, now: float, restarts: tuple[float, ...] = ()) -> GroupState:
    """A group that was not supervised until now; `restarts` are those that are known of."""
    return GroupState(
        "starting",
        now - look.age,
        look.ids,
        restarts=_recent(restarts, now),
        docker_restarts=look.restarts,
    )


def step(state: GroupState, look: GroupLook, policy: Policy, now: float) -> Step:
    """The state after a look, and what is to be done and said."""
    if look.holder is not None:
        return _stand_aside(state, look.holder, now)
    sayings: list[Decision] = []
    if state.phase == "aside":
        state = replace(adopt(look, now, state.restarts), told=state.told)
        sayings.append(Say("note", "nobody changes it any more; it is supervised again"))
    told, about_hosts = _tell_unknown(state, look)
    sayings += about_hosts
    state = replace(state, told=told)
    state, decisions = _act(state, look, policy, now)
    return state, (*sayings, *decisions)


def start_failed(state: GroupState, reason: str, policy: Policy, now: float) -> Step:
    """After a Start that did not work."""
    return _fail(state, reason, policy, now)


def _act(state: GroupState, look: GroupLook, policy: Policy, now: float) -> Step:
    if not look.unknown:
        if look.missing:
            return _incomplete(state, look, now)
        if state.ids and look.ids != state.ids:
            return _adopt_again(look, now, "it has other containers now")
        if state.phase in ("failed", "pausing") and not look.ended:
            return _adopt_again(look, now, "somebody started it")
    if state.phase == "failed":
        return state, ()
    if state.phase == "pausing":
        return _after_pause(state, look, now)
    if look.ended:
        return _fail(state, "; ".join(look.ended), policy, now)
    if look.unknown:
        # Neither its canary nor its patience counts while a part of it cannot be seen.
        since = now if state.phase == "starting" else state.since
        return replace(state, failures=0, since=since), ()
    if look.restarts > state.docker_restarts:
        return _restarted_by_docker(state, look, policy, now)
    return _judge_canary(state, look, policy, now)


def _stand_aside(state: GroupState, holder: str, now: float) -> Step:
    if state.phase == "aside":
        return state, ()
    aside = replace(state, phase="aside", since=now, failures=0)
    return aside, (Say("note", f"stands aside: it is being changed by {holder}"),)


def _tell_unknown(state: GroupState, look: GroupLook) -> tuple[frozenset[str], list[Say]]:
    """Each host that does not answer is told once, and once that it answers again."""
    known = {name.removeprefix("host ") for name in state.told if name.startswith("host ")}
    sayings = [
        Say("warning", f"{host}: {why}; that is no dead rank, so orc waits until it is back")
        for host, why in look.unknown.items()
        if host not in known
    ]
    back = known - set(look.unknown)
    sayings += [Say("note", f"{host} answers again") for host in sorted(back)]
    told = state.told - {f"host {host}" for host in back}
    return told | {f"host {host}" for host in look.unknown}, sayings


def _incomplete(state: GroupState, look: GroupLook, now: float) -> Step:
    """Some of its containers were removed: what is left is no group."""
    if state.phase == "failed" and look.ids == state.ids:
        return state, ()
    ranks = ", ".join(map(str, look.missing))
    reason = f"the container of rank {ranks} was removed"
    text = f"{reason}: a part of a group cannot be restarted; the orc up that made it can"
    failed = replace(state, phase="failed", since=now, ids=look.ids)
    return failed, (Stop(reason, final=True), Say("failed", text))


def _adopt_again(look: GroupLook, now: float, why: str) -> Step:
    return adopt(look, now), (Say("note", f"{why}; it is supervised from here on"),)


def _after_pause(state: GroupState, look: GroupLook, now: float) -> Step:
    if now < state.until:
        return state, ()
    if look.unknown:
        waits = ", ".join(look.unknown)
        if "waits" in state.told:
            return state, ()
        text = f"is started again as soon as {waits} can be reached"
        return replace(state, told=state.told | {"waits"}), (Say("note", text),)
    started = replace(
        state,
        phase="starting",
        since=now,
        failures=0,
        restarts=(*_recent(state.restarts, now), now),
        docker_restarts=0,
        told=state.told - {"waits"},
    )
    return started, (Start(),)


def _fail(state: GroupState, reason: str, policy: Policy, now: float) -> Step:
    restarts = _recent(state.restarts, now)
    if len(restarts) >= policy.budget:
        text = (
            f"given up: {reason}; it was restarted {len(restarts)} times within an hour. "
            "Everything is kept for reading: orc logs"
        )
        failed = replace(state, phase="failed", since=now, restarts=restarts, failures=0)
        return failed, (Stop(reason, final=True), Say("failed", text))
    pause = policy.pause(len(restarts))
    text = f"restart {len(restarts) + 1} of {policy.budget} this hour follows in {pause:.0f} s"
    pausing = replace(
        state, phase="pausing", since=now, until=now + pause, restarts=restarts, failures=0
    )
    return pausing, (Stop(reason), Say("warning", text))


def _restarted_by_docker(state: GroupState, look: GroupLook, policy: Policy, now: float) -> Step:
    """A group of one container, which docker restarts by itself: the same budget holds."""
    again = look.restarts - state.docker_restarts
    counted = replace(
        state,
        phase="starting",
        since=now,
        failures=0,
        docker_restarts=look.restarts,
        restarts=(*_recent(state.restarts, now), *[now] * again),
    )
    reason = f"it ended and docker restarted it, {len(counted.restarts)} times within an hour"
    if len(counted.restarts) > policy.budget:
        return _fail(counted, reason, policy, now)
    return counted, (Say("warning", reason),)


def _judge_canary(state: GroupState, look: GroupLook, policy: Policy, now: float) -> Step:
    canary = look.canary
    if not look.has_endpoint:
        canary = Canary("ok")
    if canary is None:
        return state, ()
    if canary.result in ("ok", "refused"):
        return _well(state, canary, now)
    late = now - state.since > policy.start_timeout
    if state.phase == "starting" and canary.result == "waiting" and not late:
        return state, ()
    failures = state.failures + 1
    reason = canary.detail
    if state.phase == "starting" and late:
        reason = f"not healthy after {policy.start_timeout:.0f} s: {reason}"
    if failures >= policy.canary_failures:
        return _fail(state, f"{reason} ({failures} times in a row)", policy, now)
    text = f"a completion failed, {failures} of {policy.canary_failures} times: {canary.detail}"
    return replace(state, failures=failures), (Say("warning", text),)


def _well(state: GroupState, canary: Canary, now: float) -> Step:
    sayings: list[Decision] = []
    told = state.told
    if canary.result == "refused" and "refused" not in told:
        told |= {"refused"}
        sayings.append(Say("warning", f"its completions cannot be checked: {canary.detail}"))
    if state.phase == "starting":
        after = f" after {now - state.since:.0f} s" if state.until else ""  # it was restarted
        sayings.append(Say("ok", f"healthy{after}"))
        since = now
    else:
        since = state.since
        if state.failures:
            sayings.append(Say("note", "answers completions again"))
    return replace(state, phase="healthy", since=since, failures=0, told=told), tuple(sayings)


def _recent(restarts: tuple[float, ...], now: float) -> tuple[float, ...]:
    return tuple(moment for moment in restarts if now - moment < HOUR)
