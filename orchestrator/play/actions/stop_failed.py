"""One group, one fate: the rest of a group that did not start is stopped, and kept for reading."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from orchestrator.errors import each_cause_once
from orchestrator.health.observation import observe
from orchestrator.health.status import missing_ranks
from orchestrator.planning.service import group_name
from orchestrator.play.actions.stop_containers import stop_containers
from orchestrator.play.run import Run
from orchestrator.runtime.containers import ContainerState


def stop_failed(
    run: Run,
    replicas: Iterable[int],
    hosts: Iterable[str],
    ours: Callable[[ContainerState], bool] = lambda _: True,
) -> None:
    """Stop what runs of the replicas on the hosts, as far as it is `ours`; containers stay.

    Says what was stopped, and of a host that did not answer that it is not known.
    """
    assert run.name is not None
    wanted = sorted(set(replicas))
    names = ", ".join(map(group_name, wanted))
    seen = observe(run.pool, dict.fromkeys(hosts))
    all_states = [s for s in seen.containers(run.name) if s.replica in wanted]
    states = [state for state in all_states if ours(state)]
    running = [state for state in states if state.running]
    answers = stop_containers(run.pool, running, run.name, remove=False)
    unsure = {**seen.unknown}
    unsure |= {host: error.reason for host, error in answers.items() if error is not None}
    for host, why in each_cause_once(unsure).items():
        text = f"unknown whether what runs of {names} there has stopped: {why}"
        run.say("warning", text, host=host)
    whole = all(_is_whole([s for s in states if s.replica == replica]) for replica in wanted)
    if not states:  # docker may have refused them all, before it made any
        left = any(state.running for state in all_states)
        what = f"nothing of {names} {'was started by this run' if left else 'runs'}"
        what += " on the other hosts" if unsure else ""
    elif unsure:
        what = f"what runs of {names} is stopped on the other hosts"
    else:
        what = f"stopped {'every rank' if whole else 'what was started'} of {names}"
    stay = "; the containers stay for orc logs" if states else ""
    replica = wanted[0] if len(wanted) == 1 else None
    run.say("note", f"{what}{stay}", replica=replica)


def _is_whole(states: Sequence[ContainerState]) -> bool:
    return bool(states) and not missing_ranks(states)
