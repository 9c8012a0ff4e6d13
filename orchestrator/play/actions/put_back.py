"""Go back to the spec that a roll has put aside."""

from __future__ import annotations

from orchestrator.errors import DeploymentError, ErrorGroup, OrcError, UnreachableError
from orchestrator.health.groups import groups_by_labels
from orchestrator.health.observation import Observation
from orchestrator.planning.service import group_name
from orchestrator.planning.spec_before import Place, place, spec_before, stale
from orchestrator.play.action import Action, Arguments
from orchestrator.play.actions.by_host import on_each_host
from orchestrator.play.actions.running import Running, running
from orchestrator.play.actions.stop_containers import STOP_SECONDS, stop_all, stop_containers
from orchestrator.play.actions.undrain import rejoin
from orchestrator.play.actions.wait_healthy import wait_for_groups
from orchestrator.play.result import HostResult, Report, status_of
from orchestrator.play.run import Run
from orchestrator.runtime.aside_scripts import put_back_script, start_again_script
from orchestrator.runtime.container import AFTER, BEFORE

Ranks = list[tuple[int, str]]  # each with its host


class PutBackArguments(Arguments):
    """`stopped_only`: leave a replica alone that this roll has not stopped yet."""

    stopped_only: bool = False


def perform(run: Run, arguments: PutBackArguments, report: Report) -> None:
    """All ranks of the batch's replicas: what runs now is stopped and put aside in turn, what
    ran before is started as it was, and waited for until it is healthy.

    A replica of which a rank is on a host that does not answer is left as it is: what starts
    there would make it a group of two specs. Raises OrcError for it when the others are done,
    and for a replica that has nothing to go back to.
    """
    last = run.observation or Observation()
    # Of the hosts of replicas each replica is asked for below.
    services = {s.host for s in last.everything(run.name or "") if s.replica < 0}
    seen = running(run, services if run.observation else None)
    lost = _lost(run, last, kept_only=arguments.stopped_only)
    replicas = [number for number in seen.replicas(run) if number not in lost]
    if arguments.stopped_only:
        lost = {number: ranks for number, ranks in lost.items() if number in run.stopped_replicas}
        replicas = [number for number in replicas if number in run.stopped_replicas]
        new = [
            n
            for n in sorted(filter(run.in_scope, run.stopped_replicas))
            if not seen.aside_of(n) and not _is_old(run, seen, n) and not _was_there(run, last, n)
        ]
        lost = {number: ranks for number, ranks in lost.items() if number not in new}
        _stop_new(run, seen, new, report)
        replicas = [n for n in replicas if n not in new and not _runs_untouched(run, seen, n)]
    errors = [_refusal(seen.deployment, number, ranks) for number, ranks in lost.items()]
    try:
        if replicas:
            _go_back(run, seen, replicas, report)
        if replicas and errors and not run.check:  # the task that does it is not come to
            rejoin(run, replicas)
    except OrcError as error:
        several = error.errors if isinstance(error, ErrorGroup) else (error,)
        errors += [_with_a_way_on(seen.deployment, one) for one in several]
    if errors:
        raise errors[0] if len(errors) == 1 else ErrorGroup(errors)


def _lost(run: Run, last: Observation, *, kept_only: bool) -> dict[int, Ranks]:
    """By replica: the ranks that are on hosts that do not answer any more, as they were seen
    `last`, or started by this run since.

    `kept_only`: not those that an earlier roll has put aside and that this one has no use for.
    """
    assert run.observation is not None
    answered = {host.host for host in run.observation.hosts}
    name = run.name or ""
    lost: dict[int, Ranks] = {}
    for number in {s.replica for s in last.everything(name) if s.replica >= 0}:
        if not run.in_scope(number):
            continue
        present = [s for s in last.containers(name) if s.replica == number]
        aside = [s for s in last.aside(name) if s.replica == number]
        useless = stale(present, aside) if kept_only and number not in run.unproven else ()
        ranks = [(s.rank, s.host) for s in (*present, *aside) if s not in useless]
        if number in run.started and run.plan is not None:
            started = [node for node in run.plan.nodes if node.replica == number]
            # One that is alone disturbs nobody.
            ranks += [(node.rank, node.host) for node in started if len(started) > 1]
        if unknown := sorted({(rank, host) for rank, host in ranks if host not in answered}):
            lost[number] = unknown
    return lost


def _refusal(name: str, replica: int, ranks: Ranks) -> OrcError:
    named = ", ".join(f"rank {rank} on {host}" for rank, host in ranks)
    hosts = " and ".join(dict.fromkeys(host for _, host in ranks))
    return UnreachableError(
        f"{group_name(replica)} does not go back to what ran before: {named} is not known",
        why="a group of which one rank has another spec than the others must not start; "
        "nothing of it was started",
        hint=_way_on(name, hosts),
    )


def _with_a_way_on(name: str, error: OrcError) -> OrcError:
    """A host that is lost on the way back: what is to be done then, in place of a general hint."""
    if not isinstance(error, UnreachableError) or error.host is None:
        return error
    told = UnreachableError(
        error.what, where=error.where, why=error.why, hint=_way_on(name, error.host)
    )
    told.host = error.host
    return told


def _way_on(name: str, hosts: str) -> str:
    return (
        f"when {hosts} can be reached again: the same orc roll with --resume, "
        f"or orc roll {name} --rollback"
    )


def _go_back(run: Run, seen: Running, replicas: list[int], report: Report) -> None:
    """Put what runs aside, start what ran before, and wait until it is healthy."""
    before = _before(run, seen, replicas)
    if run.check:
        for host, name in before:
            report(HostResult(host, "changed", f"would go back to {name}{BEFORE}"))
        return
    # A rank that the spec before did not have has no place to go back to.
    extra = [
        state
        for replica in replicas
        for state in spec_before(seen.of(replica), seen.aside_of(replica)).newer
        if (state.host, state.name) not in before
    ]
    run.touched |= set(replicas)
    stop_all(run, extra, seen.deployment)
    on_each_host(
        run,
        before,
        lambda names: put_back_script(names, seen.deployment, seconds=STOP_SECONDS),
        "go back to the spec before of",
    )
    on_each_host(run, before, lambda names: start_again_script(names, seen.deployment), "start")
    run.put_back |= set(replicas)
    for state in seen.states:
        if (state.host, state.name) in before:
            text = f"its logs are kept: docker logs {state.name}{AFTER}, until the next change"
            run.say("note", text, host=state.host)
    for host, name in before:
        report(HostResult(host, "changed", f"{name} runs with the spec before"))
    now = running(run, {host for host, _ in before})
    states = [state for replica in replicas for state in now.of(replica)]
    wait_for_groups(run, groups_by_labels(states), report, keep_failed=True)


def _stop_new(run: Run, seen: Running, replicas: list[int], report: Report) -> None:
    """A replica that was not there before the roll has nothing to go back to, and is not needed."""
    states = [state for replica in replicas for state in seen.of(replica)]
    answers = stop_containers(run.pool, states, seen.deployment, remove=False)
    for state in states:
        if error := answers[state.host]:
            text = f"unknown whether {state.name} has stopped; there was none before: {error}"
            report(HostResult(state.host, status_of(error), text, state.replica, state.rank))
            continue
        text = f"{state.name} is stopped; there was none before"
        report(HostResult(state.host, "changed", text, state.replica, state.rank))
    answered = {host.host for host in run.observation.hosts} if run.observation else set()
    for node in run.plan.nodes if run.plan else ():
        if node.replica in replicas and node.replica in run.started and node.host not in answered:
            text = f"unknown whether {node.name} has stopped; there was none before"
            report(HostResult(node.host, "unreachable", text, node.replica, node.rank))


def _was_there(run: Run, last: Observation, replica: int) -> bool:
    """Whether something of it was put aside, or to be, on a host that may be lost by now."""
    return any(
        state.aside or state.id in run.aside
        for state in last.everything(run.name or "")
        if state.replica == replica
    )


def _is_old(run: Run, seen: Running, replica: int) -> bool:
    """Whether what there is of it is what this run wanted to put aside, and could not."""
    return any(state.id in run.aside for state in seen.of(replica))


def _runs_untouched(run: Run, seen: Running, replica: int) -> bool:
    states = seen.of(replica)
    untouched = not seen.aside_of(replica) and {state.id for state in states} <= run.aside
    return untouched and all(state.running for state in states)


def _before(run: Run, seen: Running, replicas: list[int]) -> list[Place]:
    """Host and name of every rank that there is something to go back to."""
    found: list[Place] = []
    for replica in replicas:
        kept = spec_before(seen.of(replica), seen.aside_of(replica))
        own = kept.places
        if not own and _is_old(run, seen, replica):
            own = tuple(map(place, seen.of(replica)))
        if not own:
            raise DeploymentError(
                f"{group_name(replica)} has no spec before to go back to",
                why="a roll keeps it until the next change of the deployment",
                hint="orc up or orc roll with the selection that is wanted",
            )
        if kept.missing:
            ranks = ", ".join(map(str, kept.missing))
            raise DeploymentError(
                f"{group_name(replica)}: of the spec before, rank {ranks} is on no host that was "
                "looked at",
                why="a group starts whole or not at all; nothing of it was started",
                hint="look at all of its hosts (--limit), or orc up with the selection that is "
                "wanted",
            )
        found += own
    return found


ACTION = Action("put_back", PutBackArguments, perform, level="replica")
