"""Decide which replicas a roll goes over, and say beforehand what it will cost."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Literal

from orchestrator.errors import DeploymentError, ErrorGroup, InputError
from orchestrator.health import router_api
from orchestrator.health.probe import probe_endpoints, require_key
from orchestrator.planning.rolling import rolled
from orchestrator.planning.service import ROUTER_GROUP, group_name
from orchestrator.planning.spec_before import spec_before
from orchestrator.play.action import Action, Arguments
from orchestrator.play.actions.running import Running, running
from orchestrator.play.history import (
    Change,
    SpecChange,
    group_spec,
    group_specs,
    read_history,
    start_seconds,
)
from orchestrator.play.hold_lock import hold_lock
from orchestrator.play.record_change import begin_change
from orchestrator.play.result import HostResult, Report
from orchestrator.play.run import Run

Mode = Literal["plan", "same", "before"]


class ChooseReplicasArguments(Arguments):
    """`mode`: to the plan, the same containers once more, or back to the spec before.

    `resume`: leave out what an interrupted roll has done.
    """

    mode: Mode = "plan"
    resume: bool = False


def perform(run: Run, arguments: ChooseReplicasArguments, report: Report) -> None:
    """Afterwards the play's batches are made of the replicas chosen, and of no others."""
    seen = running(run)
    if not seen.states and not seen.aside:
        raise DeploymentError(
            f"nothing of {seen.deployment} runs on these hosts",
            hint="orc up starts it; orc status lists what runs",
        )
    hosts = list(dict.fromkeys(state.host for state in (*seen.states, *seen.aside)))
    hold_lock(run, hosts)
    seen = running(run)  # whoever had the lock may have changed it
    changes, _ = read_history(run.pool, hosts, seen.deployment)
    done = _done(run, seen, changes) if arguments.resume else []
    if arguments.mode == "plan":
        run.unproven = _unproven(run, seen, changes)
        run.decision = rolled(run.decided, done)
        if run.decision.refusals:
            raise ErrorGroup(DeploymentError(text) for text in run.decision.refusals)
        left = _left_out(run, seen)
        planned = {node.replica for node in run.planned.nodes}
        numbers = sorted(planned | set(seen.numbers))
        run.rolling = tuple(n for n in numbers if n in left or run.starts(n))
        run.replaces = {s.id for n in run.rolling if run.starts(n) for s in seen.of(n)}
    elif arguments.mode == "same":
        run.rolling = tuple(number for number in seen.numbers if number not in done)
    else:
        run.rolling = _with_a_spec_before(seen)
    # What does not serve anyway goes first: the others then have somebody to stand in for them.
    run.rolling = tuple(sorted(run.rolling, key=lambda number: (_runs(seen, number), number)))
    if run.surge in run.rolling:  # it stands in for all others
        run.rolling = (run.surge, *(number for number in run.rolling if number != run.surge))
    for number in sorted(set(done) - set(run.rolling)):  # one that was put back is rolled again
        run.say("note", f"{group_name(number)} is done already", replica=number)
    if run.plan is None:  # it has the key
        require_key(run.pool, [target for n in run.rolling for target in seen.targets(n)])
    _ask(run, _costs(run, seen, start_seconds(changes)))
    changes_to = {number: _change(run, seen, number, arguments.mode) for number in run.rolling}
    begin_change(run, changes_to, ahead=True)
    for state in seen.states:
        if state.replica in run.rolling:
            report(HostResult(state.host, "ok", f"{state.name} will be rolled", state.replica))


def _left_out(run: Run, seen: Running) -> set[int]:
    """The replicas to which the router sends no requests, though they run: an interrupted roll
    took them out, or started them, and got no further."""
    serving = _serving(run, seen)
    if serving is None:
        return set()
    return {n for n in seen.numbers if any(t.url not in serving for t in seen.targets(n))}


def _serving(run: Run, seen: Running) -> set[str] | None:
    """The URLs that the router holds for healthy; None where there is no router."""
    if seen.router is None or not seen.router.endpoint:
        return None
    return router_api.serving(run.pool.connection(seen.router.host), seen.router.endpoint)


def _runs(seen: Running, replica: int) -> bool:
    states = seen.of(replica)
    return bool(states) and all(state.running for state in states)


def _with_a_spec_before(seen: Running) -> tuple[int, ...]:
    kept = {n: spec_before(seen.of(n), seen.aside_of(n)) for n in seen.numbers}
    found = {number for number, one in kept.items() if one.places}
    lacking = [
        DeploymentError(
            f"{group_name(number)}: of the spec before, rank {', '.join(map(str, one.missing))} "
            "is on no host that was looked at",
            why="a group starts whole or not at all; nothing was touched",
            hint="look at all of its hosts (--limit), or orc up with the selection that is wanted",
        )
        for number, one in kept.items()
        if one.missing
    ]
    if lacking:
        raise ErrorGroup(lacking)
    if not found:
        raise DeploymentError(
            f"{seen.deployment} has no spec before to go back to",
            why="a roll to another spec keeps the old containers until the next change",
            hint="orc roll with the selection that is wanted",
        )
    return tuple(sorted(found))


def _done(run: Run, seen: Running, changes: Sequence[Change]) -> list[int]:
    """The replicas that the last roll restarted and put back: all their ranks are younger than
    it, and the router, where there is one, sends them requests."""
    rolls = [change for change in changes if change.playbook == run.request.playbook]
    unfinished = [c for c in rolls[-1:] if c.result != "done"]
    if not unfinished:
        return []
    age = time.time() - unfinished[0].moment
    serving = _serving(run, seen)
    return [
        number
        for number in seen.numbers
        if (states := seen.of(number))
        and all(state.up_seconds is not None and state.up_seconds < age for state in states)
        and all(serving is None or target.url in serving for target in seen.targets(number))
    ]


def _unproven(run: Run, seen: Running, changes: Sequence[Change]) -> set[int]:
    """The replicas that do not serve since the last roll, which did not end: what they ran before
    it is still the spec to go back to."""
    own = run.change.id if run.change else None
    last = [c for c in changes if c.playbook == run.request.playbook and c.id != own][-1:]
    if not last or last[0].result == "done":
        return set()
    begun = {number for number in seen.numbers if seen.aside_of(number)}
    checks = probe_endpoints(run.pool, [t for number in begun for t in seen.targets(number)])
    return {
        number
        for number in begun
        if not _runs(seen, number)
        or not all(checks[target].healthy for target in seen.targets(number))
    }


def _change(run: Run, seen: Running, replica: int, mode: Mode) -> SpecChange:
    """The spec of a replica before and after."""
    now, before = group_specs(seen.of(replica), seen.aside_of(replica))
    if run.plan is not None:
        return SpecChange(now, group_spec(n for n in run.plan.nodes if n.replica == replica))
    return SpecChange(now, before or now if mode == "before" else now)


def _costs(run: Run, seen: Running, seconds: Mapping[int, float]) -> str | None:
    """What does not serve meanwhile, and for how long, going by the last starts."""
    rolling = run.rolling or ()
    known = [seconds[number] for number in rolling if number in seconds]
    took = f"about {max(known):.0f} s" if known else "as long as a start takes"
    if rolling and len(seen.numbers) == 1:
        return f"{seen.deployment} has one replica: it does not serve while it restarts, {took}"
    if rolling and seen.router is None:
        return f"there is no router: each replica does not answer while it restarts, {took}"
    restarted = run.decision.of("restart") if run.plan and run.decision else ()
    for one in restarted:
        if one.replica == ROUTER_GROUP and seen.router is not None:
            why = "; ".join(one.reasons)
            return f"no request gets through while the router restarts, at the end: {why}"
    return None


def _ask(run: Run, costs: str | None) -> None:
    """Say what it costs; where somebody is there to answer, go on only if he wants to."""
    if costs is None:
        return
    run.say("warning", costs)
    if run.confirm is not None and not run.confirm("Go on?"):
        raise InputError("not confirmed: nothing was touched", hint="--yes asks nothing")


ACTION = Action("choose_replicas", ChooseReplicasArguments, perform)
