"""Go back to the spec that a roll has put aside."""

from __future__ import annotations

from orchestrator.errors import DeploymentError
from orchestrator.health.groups import groups_by_labels
from orchestrator.planning.service import group_name
from orchestrator.planning.spec_before import Place, place, spec_before
from orchestrator.play.action import Action, Arguments
from orchestrator.play.actions.by_host import on_each_host
from orchestrator.play.actions.running import Running, hosts_of_batch, running
from orchestrator.play.actions.stop_containers import STOP_SECONDS, stop_all, stop_containers
from orchestrator.play.actions.wait_healthy import wait_for_groups
from orchestrator.play.result import HostResult, Report, status_of
from orchestrator.play.run import Run
from orchestrator.runtime.aside_scripts import put_back_script, start_again_script
from orchestrator.runtime.container import AFTER, BEFORE


class PutBackArguments(Arguments):
    """`stopped_only`: leave a replica alone that this roll has not stopped yet."""

    stopped_only: bool = False


def perform(run: Run, arguments: PutBackArguments, report: Report) -> None:
    """All ranks of the batch's replicas: what runs now is stopped and put aside in turn, what
    ran before is started as it was, and waited for until it is healthy.

    Raises DeploymentError for a replica that has nothing to go back to.
    """
    needed = hosts_of_batch(run)
    seen = running(run, needed)
    replicas = seen.replicas(run)
    if arguments.stopped_only:
        replicas = [number for number in replicas if number in run.stopped_replicas]
        new = [n for n in replicas if not seen.aside_of(n) and not _is_old(run, seen, n)]
        _stop_new(run, seen, new, report)
        replicas = [n for n in replicas if n not in new and not _runs_untouched(run, seen, n)]
    if not replicas:
        return
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
    now = running(run, needed)
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
        own = spec_before(seen.of(replica), seen.aside_of(replica)).places
        if not own and _is_old(run, seen, replica):
            own = tuple(map(place, seen.of(replica)))
        if not own:
            raise DeploymentError(
                f"{group_name(replica)} has no spec before to go back to",
                why="a roll keeps it until the next change of the deployment",
                hint="orc up or orc roll with the selection that is wanted",
            )
        found += own
    return found


ACTION = Action("put_back", PutBackArguments, perform, level="replica")
