"""Restart groups whole, as they are: all ranks stop, the same containers start, all together."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import chain

from pydantic import Field

from orchestrator.deployment import Health, SomeTime
from orchestrator.errors import DeploymentError, ErrorGroup, InputError, OrcError, UnreachableError
from orchestrator.health.groups import groups_by_labels
from orchestrator.health.judge import RankKey
from orchestrator.health.observation import Observation, observe
from orchestrator.health.probe import require_key
from orchestrator.health.status import missing_ranks
from orchestrator.planning.port_use import labelled_ports
from orchestrator.planning.service import KV_STORE_GROUP, group_name, start_order
from orchestrator.play.action import Action, Arguments
from orchestrator.play.actions.by_host import on_each_host
from orchestrator.play.actions.kv_store import Service, wait_for_services
from orchestrator.play.actions.stop_containers import stop_containers
from orchestrator.play.actions.undrain import rejoin
from orchestrator.play.actions.wait_healthy import wait_for_groups
from orchestrator.play.history import SpecChange, group_spec
from orchestrator.play.hold_lock import hold_lock
from orchestrator.play.record_change import begin_change
from orchestrator.play.result import HostResult, Report
from orchestrator.play.run import Run
from orchestrator.runtime.aside_scripts import start_again_script
from orchestrator.runtime.containers import ContainerState

Groups = dict[int, list[ContainerState]]


class RestartArguments(Arguments):
    """`replicas`: only these, of those that the batch has. `timeout`: how long they may take to
    become healthy. `keep_failed`: leave the other ranks running when one fails."""

    replicas: tuple[int, ...] | None = None
    timeout: SomeTime = Field(default_factory=lambda: Health().timeout)
    keep_failed: bool = False


def perform(run: Run, arguments: RestartArguments, report: Report) -> None:
    """Needs neither plan nor recipe: what the containers' labels say is enough.

    Raises DeploymentError for a group of which a container is missing: it cannot be restarted
    whole, and starting a part of it would be worse than nothing.
    """
    seen = observe(run.pool, run.inventory.hosts)
    groups = _chosen(run, arguments, seen)
    hosts = [state.host for states in groups.values() for state in states]
    if run.check:
        for state in (state for states in groups.values() for state in states):
            text = f"would restart {state.name}"
            report(HostResult(state.host, "changed", text, state.replica, state.rank))
        return
    hold_lock(run, hosts)
    groups = _chosen(run, arguments, observe(run.pool, run.inventory.hosts))
    found = groups_by_labels(state for states in groups.values() for state in states)
    require_key(run.pool, [target for group in found for target in group.targets])
    specs = {number: group_spec(states) for number, states in groups.items()}
    begin_change(run, {number: SpecChange(spec, spec) for number, spec in specs.items()})
    health = Health(timeout=arguments.timeout)
    try:
        _stop(run, groups)
        for numbers in start_order(groups):
            states = [state for number in numbers for state in groups[number]]
            if not _start(run, states, health, arguments.keep_failed, report):
                _say_what_stands(run, groups)
                return
    except OrcError as error:
        _say_what_stands(run, groups, error)
        raise
    rejoin(run, [number for number in groups if number >= 0])


def _chosen(run: Run, arguments: RestartArguments, seen: Observation) -> Groups:
    """The containers of each group that is meant. Raises OrcError when one is not whole."""
    if run.name is None:
        raise InputError("which deployment is to be restarted was not said")
    groups: Groups = {}
    for state in seen.containers(run.name):
        if run.in_scope(state.replica):
            groups.setdefault(state.replica, []).append(state)
    wanted = arguments.replicas
    if wanted is not None:
        unknown = [number for number in wanted if number not in groups]
        if unknown:
            there = ", ".join(map(group_name, groups)) or "nothing"
            raise DeploymentError(
                f"{run.name} has no {group_name(unknown[0])}", why=f"there is: {there}"
            )
        groups = {number: groups[number] for number in wanted}
    if not groups:
        kind = UnreachableError if seen.unreachable else DeploymentError
        raise kind(
            f"nothing of {run.name} is there to restart",
            why="\n".join(f"{host}: {why}" for host, why in seen.explained.items()) or None,
            hint="orc up starts it; orc status lists what runs",
        )
    errors = [error for states in groups.values() if (error := _not_whole(run, states, seen))]
    if errors:
        raise ErrorGroup(errors)
    return groups


def _not_whole(run: Run, states: Sequence[ContainerState], seen: Observation) -> OrcError | None:
    missing = missing_ranks(states)
    if not missing:
        return None
    ranks = ", ".join(map(str, missing))
    what = f"{group_name(states[0].replica)} cannot be restarted: rank {ranks} was not seen"
    if seen.unknown:
        why = "\n".join(f"{host}: {why}" for host, why in seen.explained.items())
        kind = UnreachableError if seen.unreachable else DeploymentError
        return kind(
            what,
            why=f"there are hosts that did not answer\n{why}",
            hint=f"orc restart {run.name} again when they answer",
        )
    return DeploymentError(
        what,
        why="its container is gone, and a group is restarted whole or not at all",
        hint=f"the orc up that made {run.name} makes it anew",
    )


def _stop(run: Run, groups: Groups) -> None:
    """Raises OrcError where a rank could not be stopped: nothing is started then."""
    assert run.name is not None
    states = [state for own in groups.values() for state in own]
    for state in states:
        run.say("progress", f"stopping {state.name} ({state.status})", host=state.host)
    answers = stop_containers(run.pool, states, run.name, remove=False)
    errors = [answer for answer in answers.values() if answer is not None]
    if errors:
        raise ErrorGroup(errors)


def _start(
    run: Run, states: Sequence[ContainerState], health: Health, keep_failed: bool, report: Report
) -> bool:
    """Start all the containers at once and wait for them; whether all became healthy."""
    name = run.name
    assert name is not None
    run.started |= {state.replica for state in states}
    containers = [(state.host, state.name) for state in states]
    on_each_host(run, containers, lambda names: start_again_script(names, name), "start")
    for state in states:
        text = f"restarted {state.name}"
        report(HostResult(state.host, "changed", text, state.replica, state.rank))
    if states[0].replica == KV_STORE_GROUP:
        services = [
            Service(
                RankKey(state.host, state.name, state.rank),
                labelled_ports(state),
                _addresses(run, state.host),
            )
            for state in states
        ]
        return wait_for_services(run, services, report, keep_failed=keep_failed)
    # As they are from now on: docker counts its own restarts from here.
    started = [replace(state, status="running", restart_count=0) for state in states]
    groups = groups_by_labels(started)
    wait_for_groups(run, groups, report, keep_failed=keep_failed, health=health)
    return {group.replica for group in groups} <= set(run.healthy_after)


def _say_what_stands(run: Run, groups: Groups, error: OrcError | None = None) -> None:
    """After a restart that did not come to its end: what runs of each group and what is stopped,
    as a look at the hosts shows. What `error` says of a host is not asked again."""
    errors = error.errors if isinstance(error, ErrorGroup) else (error,)
    silent = {one.where for one in errors if isinstance(one, UnreachableError) and one.where}
    hosts = {state.host: None for states in groups.values() for state in states}
    seen = observe(run.pool, [host for host in hosts if host not in silent])
    now = {state.id: state for state in seen.containers(run.name)}
    silent |= set(seen.unknown)
    for number in chain.from_iterable(start_order(groups)):
        ranks = [_how(state, now.get(state.id), silent) for state in groups[number]]
        one = ranks[0] if len(set(ranks)) == 1 else None
        told = [f"{s.name} {how}" for s, how in zip(groups[number], ranks, strict=True)]
        text = f"{group_name(number)} {one}" if one else f"{group_name(number)}: {', '.join(told)}"
        run.say("warning", text, replica=number)
    away = " and ".join(host for host in hosts if host in silent)
    when = f"when {away} answers again" if away else "when the cause is mended"
    run.say("note", f"{when}: orc restart {run.name} again")


def _how(state: ContainerState, now: ContainerState | None, silent: Collection[str]) -> str:
    if state.host in silent:
        return f"is not known ({state.host} does not answer)"
    if now is None:
        return "is gone"
    return "runs" if now.running else "is stopped"


def _addresses(run: Run, host: str) -> tuple[str, ...]:
    """Where a service of a host may listen: no label says which of its addresses was used."""
    known = run.inventory.hosts[host]
    candidates = (known.settings.address, known.connection.address, "127.0.0.1")
    return tuple(dict.fromkeys(address for address in candidates if address))


ACTION = Action("restart_group", RestartArguments, perform, level="replica")
