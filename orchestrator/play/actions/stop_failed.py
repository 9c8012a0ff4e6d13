"""One group, one fate: the rest of a group that did not start is stopped, and kept for reading."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from orchestrator.errors import OrcError
from orchestrator.health.observation import observe
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
    running = [s for s in seen.containers(run.name) if s.replica in wanted and s.running]
    answers = stop_containers(run.pool, filter(ours, running), run.name, remove=False)
    unsure: dict[str, str | OrcError] = {**seen.unknown}
    unsure |= {host: error for host, error in answers.items() if error is not None}
    for host, why in unsure.items():
        text = f"unknown whether what runs of {names} there has stopped: {why}"
        run.say("warning", text, host=host)
    if unsure:
        what = f"what runs of {names} is stopped on the other hosts"
    else:
        what = f"stopped every rank of {names}"
    replica = wanted[0] if len(wanted) == 1 else None
    run.say("note", f"{what}; the containers stay for orc logs", replica=replica)
