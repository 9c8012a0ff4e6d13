"""Take replicas out of the router, and wait until they have no request left."""

from __future__ import annotations

import time

from orchestrator.deployment import Seconds
from orchestrator.errors import DeploymentError, OrcError
from orchestrator.health.endpoint import Target
from orchestrator.health.metrics import fetch_metrics
from orchestrator.health.router_api import can_put_back, remove_worker, serving
from orchestrator.planning.draining import can_be_drained
from orchestrator.planning.service import group_name
from orchestrator.play.action import Action, Arguments
from orchestrator.play.actions.mark_draining import mark_draining
from orchestrator.play.actions.running import Running, running
from orchestrator.play.result import HostResult, Report, Status
from orchestrator.play.run import Run

_INTERVAL = 0.5
# A request that the router has accepted may not have reached its worker yet, so it is quiet only
# when nothing was in flight for as long as this.
_QUIET = 1.5
# An endpoint that gives no number so many times in a row is dead, and not just busy.
_SILENT = 6
_HEARD = 120.0  # the router looks at its workers now and then


class DrainArguments(Arguments):
    """`timeout`: how long to wait for requests; what is left after it is cut off.

    `force`: cut off what is left then; else the replica is failed and goes on serving.
    """

    timeout: Seconds = 600.0
    force: bool = True


def perform(run: Run, arguments: DrainArguments, report: Report) -> None:
    """All replicas of the batch at once; those that do not run have nothing to drain."""
    seen = running(run)
    targets = [target for replica in seen.replicas(run) for target in seen.targets(replica)]
    if run.check:
        for target in targets:
            text = f"would take requests from {target.url} until it has none"
            report(HostResult(target.host, "changed", text, target.replica))
        return
    if not targets:
        return
    left = drain(run, seen, targets, arguments.timeout)
    for target in targets:
        status, text = _told(target, left.get(target), arguments)
        report(HostResult(target.host, status, text, target.replica))


def drain(
    run: Run, seen: Running, targets: list[Target], timeout: float
) -> dict[Target, int | None]:
    """Take the endpoints out of the router; returns what they still had after `timeout` s."""
    _take_out(run, seen, targets)
    return _wait(run, targets, timeout)


def _take_out(run: Run, seen: Running, targets: list[Target]) -> None:
    if seen.router is None or not seen.router.endpoint:
        run.say("note", "there is no router: whoever sends requests has to stop by himself")
        return
    connection = run.pool.connection(seen.router.host)
    going = {target.url for target in targets}
    known = serving(connection, seen.router.endpoint)
    if len(seen.numbers) > len({target.replica for target in targets}) and not known - going:
        raise DeploymentError(
            "no other replica serves: to take this one out would stop all requests",
            why=f"of its workers the router holds {_list(known)} for healthy",
            hint=f"orc status {seen.deployment}; orc up makes the others healthy",
        )
    if not can_put_back(seen.router):
        _mark(run, seen, targets)
        return
    for url in going:
        remove_worker(connection, seen.router.endpoint, url)


def _mark(run: Run, seen: Running, targets: list[Target]) -> None:
    """Let the engines say that they are not healthy, and wait until the router has heard it."""
    states = [s for target in targets for s in seen.of(target.replica) if s.endpoint == target.url]
    if not all(can_be_drained(state.command) for state in states):
        text = "the router cannot put a worker back, and these engines have no other way to be"
        run.say("warning", f"{text} taken out of use: requests that come meanwhile fail")
        return
    assert seen.router is not None and seen.router.endpoint
    mark_draining(run, seen, states, present=True)
    connection = run.pool.connection(seen.router.host)
    deadline = time.monotonic() + _HEARD
    going = {target.url for target in targets}
    while serving(connection, seen.router.endpoint) & going:
        if time.monotonic() > deadline:
            raise DeploymentError(
                f"the router still sends requests to {_list(going)} after {_HEARD:.0f} s",
                where=seen.router.host,
                hint=f"orc logs {seen.deployment}",
            )
        time.sleep(_INTERVAL)


def _list(urls: set[str]) -> str:
    return ", ".join(sorted(urls)) or "none"


def _wait(run: Run, targets: list[Target], timeout: float) -> dict[Target, int | None]:
    """Wait until all are quiet or the time is over; returns what was in flight at the end."""
    deadline = time.monotonic() + timeout
    quiet_since: float | None = None
    told = 0.0
    silent = dict.fromkeys(targets, 0)
    while True:
        counts = {target: _in_flight(run, target) for target in targets}
        silent = {t: silent[t] + 1 if counts[t] is None else 0 for t in targets}
        now = time.monotonic()
        busy = any(counts[t] or 0 < silent[t] < _SILENT for t in targets)
        quiet_since = None if busy else quiet_since or now
        if (quiet_since and now - quiet_since >= _QUIET) or now >= deadline:
            return counts
        if now - told >= 2.0 and any(counts.values()):
            told = now
            total = sum(count or 0 for count in counts.values())
            names = ", ".join(dict.fromkeys(group_name(target.replica) for target in targets))
            run.say("progress", f"{names}: {total} requests in flight")
        time.sleep(_INTERVAL)


def _in_flight(run: Run, target: Target) -> int | None:
    """The requests that run and wait at an endpoint; None when it does not say."""
    try:
        found = fetch_metrics(run.pool.connection(target.host), target)
    except OrcError:
        return None
    return None if found is None else found.running + found.waiting


def _told(target: Target, left: int | None, arguments: DrainArguments) -> tuple[Status, str]:
    if left:
        text = f"{target.url}: {left} requests are left after {arguments.timeout:.0f} s"
        return ("changed" if arguments.force else "failed"), text
    return "changed", f"{target.url} has no request left"


ACTION = Action("drain", DrainArguments, perform, level="replica")
