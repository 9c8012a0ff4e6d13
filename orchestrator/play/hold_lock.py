"""A run takes the lock of its deployment, or waits for it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from orchestrator.errors import each_cause_once
from orchestrator.play.holder import is_gone, this_process
from orchestrator.play.lock import HeldLock, Locked, LockedError
from orchestrator.play.run import Run

_POLL = 2.0  # seconds between two looks at a lock that is waited for

Ports = Mapping[str, Sequence[int]]  # by host


def hold_lock(run: Run, hosts: Iterable[str], ports: Ports | None = None) -> list[Locked]:
    """Hold the lock of the run's deployment on `hosts`; returns the other locks of these hosts.

    Does nothing with `--check`. What the run holds already is kept, and its `ports` are
    rewritten when they are given. A lock whose holder was a process of this machine that is
    gone is taken over. Raises LockedError when somebody else holds it for longer than
    `--lock-timeout`. A host on which no lock can be made is only warned of: a full disk must
    keep nobody from stopping what runs there.
    """
    if run.check or run.name is None:
        return []
    lock = run.lock
    if lock is None:
        lock = HeldLock(run.pool, run.name, this_process(run.clean(run.request.command)))
    if ports is not None:
        lock.holder = replace(lock.holder, ports={h: list(own) for h, own in ports.items()})
    wanted = set(hosts)
    todo = [
        host
        for host in run.inventory.hosts
        if host in wanted and (ports is not None or host not in lock.hosts)
    ]
    run.lock = lock
    try:
        others, trouble = _take(run, lock, todo)
    except LockedError:
        run.lock = lock if lock.hosts else None
        raise
    for host, why in each_cause_once(trouble).items():
        run.say("warning", f"no lock can be held there: {why}", host=host)
    lock.keep(lambda host, now: _say_lost(run, host, now))
    return others


def _take(run: Run, lock: HeldLock, hosts: Sequence[str]) -> tuple[list[Locked], dict[str, str]]:
    replaceable: set[str] = set()
    deadline = time.monotonic() + run.request.lock_timeout
    waiting = False
    while True:
        found, others, trouble = lock.take(hosts, replaceable)
        if found is None:
            return others, trouble
        if found.holder.id not in replaceable and is_gone(found.holder, found.silent):
            run.say("note", f"took over the lock of a run that is gone: {found.holder}")
            replaceable.add(found.holder.id)
        elif found.holder.id not in replaceable and run.request.break_lock:
            run.say("warning", f"broke the lock of {found}")
            replaceable.add(found.holder.id)
        elif time.monotonic() >= deadline:
            raise LockedError(lock.name, found)
        else:
            if not waiting:
                run.say("note", f"waiting for the lock of {lock.name}, held by {found}")
            waiting = True
            time.sleep(min(_POLL, max(0.1, deadline - time.monotonic())))


def _say_lost(run: Run, host: str, now: Locked | None) -> None:
    who = f"was taken by {now.holder}" if now else "was released by somebody"
    run.say("warning", f"the lock of {run.name} {who}; this run goes on without it", host=host)
