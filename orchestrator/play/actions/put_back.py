"""Go back to the spec that a roll has put aside."""

from __future__ import annotations

from orchestrator.errors import DeploymentError, ErrorGroup
from orchestrator.health.groups import groups_by_labels
from orchestrator.planning.service import group_name
from orchestrator.play.action import Action, Arguments, HostResult, Report
from orchestrator.play.actions.by_host import on_each_host
from orchestrator.play.actions.running import Running, running
from orchestrator.play.actions.stop_containers import STOP_SECONDS, stop_containers
from orchestrator.play.actions.wait_healthy import wait_for_groups
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
    seen = running(run)
    replicas = seen.replicas(run)
    if arguments.stopped_only:
        replicas = [number for number in replicas if number in run.stopped_replicas]
        new = [number for number in replicas if not seen.aside_of(number)]
        _stop_new(run, seen, new, report)
        replicas = [number for number in replicas if number not in new]
    if not replicas:
        return
    before = _before(seen, replicas)
    if run.check:
        for host, name in before:
            report(HostResult(host, "changed", f"would go back to {name}{BEFORE}"))
        return
    # A rank that the spec before did not have has no place to go back to.
    extra = [
        state
        for replica in replicas
        for state in seen.of(replica)
        if (state.host, state.name) not in before
    ]
    troubles = stop_containers(run.pool, extra, seen.deployment, remove=True).values()
    if any(troubles):
        raise ErrorGroup([trouble for trouble in troubles if trouble])
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
    now = running(run)
    states = [state for replica in replicas for state in now.of(replica)]
    wait_for_groups(run, groups_by_labels(states), report, keep_failed=True)


def _stop_new(run: Run, seen: Running, replicas: list[int], report: Report) -> None:
    """A replica that was not there before the roll has nothing to go back to, and is not needed."""
    states = [state for replica in replicas for state in seen.of(replica)]
    stop_containers(run.pool, states, seen.deployment, remove=False)
    for state in states:
        text = f"{state.name} is stopped; there was none before"
        report(HostResult(state.host, "changed", text, state.replica, state.rank))


def _before(seen: Running, replicas: list[int]) -> list[tuple[str, str]]:
    """Host and name of every rank that there is something to go back to."""
    found = []
    for replica in replicas:
        own = [
            (state.host, state.name.removesuffix(BEFORE))
            for state in seen.aside_of(replica)
            if state.name.endswith(BEFORE)
        ]
        if not own:
            raise DeploymentError(
                f"{group_name(replica)} has no spec before to go back to",
                why="a roll keeps it until the next change of the deployment",
                hint="orc up or orc roll with the selection that is wanted",
            )
        found += own
    return found


ACTION = Action("put_back", PutBackArguments, perform, level="replica")
