"""A task that acts on replicas, or on the whole deployment: one call for all of them."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence

from orchestrator.errors import DeploymentError, ErrorGroup, OrcError, UnreachableError
from orchestrator.planning.service import SERVICE_GROUPS
from orchestrator.play.action import Action
from orchestrator.play.progress import Fate
from orchestrator.play.result import HostResult
from orchestrator.play.task_run import Outcome, TaskRun
from orchestrator.play.time_limit import TimeIsUp, time_limit
from orchestrator.play.variables import Variables

_Results = dict[str, list[HostResult]]


def perform_on_groups(one: TaskRun) -> Outcome:
    """`when`, `until` and `register` are of each replica, as its first host sees them; arguments
    are filled in once. An OrcError fails all that the task acts on."""
    heads = _heads(one)
    if not heads:
        return Outcome()
    first = one.variables(next(iter(heads.values())))
    fate = one.fate(first)
    try:
        chosen = {n: h for n, h in heads.items() if one.variables(h).test(one.task.when)}
        _tell_skipped(one, {n: h for n, h in heads.items() if n not in chosen})
    except OrcError as error:
        return _raised(one, error, heads, fate)
    if not chosen:
        return Outcome()
    return _perform(one, chosen, one.variables(next(iter(chosen.values()))), fate)


def _heads(one: TaskRun) -> dict[int | None, str]:
    """Whose variables count: the first host of each replica, or of all where there are none."""
    if one.task.action.level != "replica" or not one.replicas:
        return {None: one.hosts[0]}
    present = set(one.hosts)
    heads: dict[int | None, str] = {}
    for number, hosts in one.replicas.items():
        own = [host for host in hosts if host in present]
        if own:
            heads[number] = own[0]
    return heads


def _perform(
    one: TaskRun, chosen: Mapping[int | None, str], first: Variables, fate: Fate
) -> Outcome:
    """Try until every replica is satisfied, each time only those that are not yet."""
    live = not (one.task.until or one.task.retries or _judges(one))
    left = dict(chosen)
    results: _Results = {}
    try:
        most, delay = one.attempts(first)
        for attempt in range(1, most + 1):
            results |= _attempt(one, left, first, fate if live else None)
            if most == 1:
                break
            left = {n: h for n, h in left.items() if not _satisfied(one, n, h, results)}
            if not left:
                break
            if attempt == most:
                _give_up(one, left, results, attempt)
                break
            text = f"attempt {attempt} of {most}, next in {delay:g} s"
            one.progress.run.say("progress", text)
            one.progress.pause(delay)
    except OrcError as error:
        return _raised(one, error, chosen, fate)
    if not live:
        for result in (result for own in results.values() for result in own):
            one.progress.tell(one.task, result, fate)
    _register(one, {**{host: [] for host in _hosts(one, chosen)}, **results})
    return _outcome(one, results, fate)


def _raised(one: TaskRun, error: OrcError, numbers: Collection[int | None], fate: Fate) -> Outcome:
    """An error that an action raised: all that it was to act on has failed, but for the hosts of
    it that are lost, by what it says."""
    hosts = _hosts(one, numbers)
    errors = error.errors if isinstance(error, ErrorGroup) else (error,)
    named = {e.host or e.where for e in errors if isinstance(e, UnreachableError)}
    lost = frozenset(hosts) & named
    one.progress.tell_error(error, fate)
    one.progress.count_error(error, fate)
    text = str(error)
    _register(
        one,
        {h: [HostResult(h, "unreachable" if h in lost else "failed", text)] for h in hosts},
    )
    return Outcome() if fate == "ignored" else Outcome(frozenset(hosts) - lost, lost)


def _judges(one: TaskRun) -> bool:
    return one.task.failed_when is not None or one.task.changed_when is not None


def _attempt(
    one: TaskRun, chosen: Mapping[int | None, str], first: Variables, fate: Fate | None
) -> _Results:
    """One call of the action. `fate`: results are told at once; None: they are kept for later."""
    action, run = one.task.action, one.progress.run
    assert isinstance(action, Action)
    results: _Results = {}
    lock = threading.Lock()

    def report(result: HostResult) -> None:
        if fate is not None:
            one.progress.tell(one.task, result, fate)
        with lock:
            results.setdefault(result.host, []).append(result)

    run.scope = _scope(one, chosen)
    seconds = one.timeout(first)
    try:
        arguments = one.arguments(first)
        with time_limit(seconds):
            action.perform(run, arguments, report)
    except TimeIsUp:
        text = f"{action.name} took more than {seconds:g} s and was ended"
        raise DeploymentError(text, where=one.task.where) from None
    finally:
        run.scope = None
    if _judges(one):
        known = one.progress.hosts
        for host, own in results.items():
            seen = one.variables(host if host in known else one.hosts[0])
            results[host] = [one.judged(seen, result) for result in own]
    return results


def _scope(one: TaskRun, chosen: Mapping[int | None, str]) -> frozenset[int] | None:
    """The groups that are acted on; None: all of them, services too."""
    everything = set(one.progress.run.replica_hosts)
    if one.task.action.level == "deployment":
        # Not the replicas that have left the play.
        present, mine = set(one.hosts), set(one.play_hosts)
        gone = {n for n, own in one.replicas.items() if mine & {*own} and not present & {*own}}
        return frozenset({*everything, *SERVICE_GROUPS.values()} - gone) if gone else None
    numbers = {number for number in chosen if number is not None}
    if one.task.action.level == "batch":
        numbers = {n for n, own in one.replicas.items() if set(own) & set(one.hosts)}
    if one.batch.replicas is None and numbers == everything:
        return None
    return frozenset(numbers)


def _hosts(one: TaskRun, numbers: Collection[int | None]) -> list[str]:
    """The hosts of some replicas that have reached the task; of None, all."""
    if None in numbers:
        return list(one.hosts)
    own = {host for number, hosts in one.replicas.items() if number in numbers for host in hosts}
    return [host for host in one.hosts if host in own]


def _satisfied(one: TaskRun, number: int | None, head: str, results: _Results) -> bool:
    own = [result for host in _hosts(one, {number}) for result in results.get(host, [])]
    if number is None:
        own = [result for some in results.values() for result in some]
    return one.satisfied(one.variables(head), own)


def _give_up(one: TaskRun, left: Collection[int | None], results: _Results, attempts: int) -> None:
    """What never came to hold has failed, on the first host of each replica at least."""
    text = f"given up after {attempts} attempts"
    for number in left:
        hosts = _hosts(one, {number})
        own = [result for host in hosts for result in results.get(host, [])]
        if not any(result.status in ("failed", "unreachable") for result in own):
            failure = HostResult(hosts[0], "failed", text, number)
            results[hosts[0]] = [failure]


def _tell_skipped(one: TaskRun, heads: Mapping[int | None, str]) -> None:
    for number, head in heads.items():
        result = HostResult(head, "skipped", replica=number)
        one.progress.tell(one.task, result)
        _register(one, {host: [result] for host in _hosts(one, {number})})


def _register(one: TaskRun, results: Mapping[str, Sequence[HostResult]]) -> None:
    for host, own in results.items():
        one.progress.register(one.task, host, one.data(list(own)))


def _outcome(one: TaskRun, results: _Results, fate: Fate) -> Outcome:
    """Who failed. What serves all replicas, or runs elsewhere, fails all who have come here."""
    failed: set[str] = set()
    unreachable: set[str] = set()
    everyone = set(one.play_hosts)
    for host, own in results.items():
        for result in own:
            if result.status == "unreachable" and host in everyone:
                unreachable.add(host)
            elif result.status in ("failed", "unreachable") and fate != "ignored":
                shared = host not in everyone or (result.replica or 0) < 0
                failed |= set(one.hosts) if shared else {host}
    return Outcome(frozenset(failed), frozenset(unreachable))
