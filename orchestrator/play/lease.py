"""One `orc watch` for each deployment, and who else changes a deployment meanwhile."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from orchestrator.errors import DeploymentError, each_cause_once
from orchestrator.inventory.load import Inventory
from orchestrator.play.holder import is_gone, this_process
from orchestrator.play.lock import HeldLock, Locked, found_locks
from orchestrator.play.request import Request
from orchestrator.transport.pool import ConnectionPool

_POLL = 3.0  # seconds between two looks at who changes what
_AGAIN = 30.0  # seconds between two attempts to get another's lease


class Leases:
    """The watch's lease of each deployment, which is a lock of its own kind."""

    def __init__(
        self,
        inventory: Inventory,
        pool: ConnectionPool,
        request: Request,
        say: Callable[[str, str], None],
    ) -> None:
        self._inventory = inventory
        self._pool = pool
        self._request = request
        self._say = say
        self._held: dict[str, HeldLock] = {}
        self._again: dict[str, float] = {}  # deployments of others: when to try again
        self._holders: dict[str, str] = {}
        self._looked: dict[str, float] = {}
        self._polled = 0.0
        self._polling: threading.Thread | None = None

    def held(self, deployment: str) -> bool:
        """Whether this process is the deployment's watch."""
        lease = self._held.get(deployment)
        return lease is not None and not lease.lost

    def hold(self, hosts: Mapping[str, Sequence[str]], *, named: str | None) -> None:
        """Hold the leases of these deployments on these hosts, and no others.

        Raises DeploymentError when another watches the one that was named.
        """
        for name in [name for name in self._held if name not in hosts]:
            self._held.pop(name).release()
        for name, own in hosts.items():
            if own and name not in self._held and time.monotonic() >= self._again.get(name, 0.0):
                self._take(name, own, named)
        self._poll({name: own[0] for name, own in hosts.items() if own})

    def _take(self, name: str, hosts: Sequence[str], named: str | None) -> None:
        lease = HeldLock(self._pool, name, this_process(self._request.command), "watches")
        replaceable: set[str] = set()
        while True:
            found, _, trouble = lease.take(hosts, replaceable)
            if found is None:
                break
            gone = is_gone(found.holder, found.silent)
            if found.holder.id in replaceable or not (gone or self._request.break_lock):
                self._refuse(name, found, named)
                return
            replaceable.add(found.holder.id)
        for host, why in each_cause_once(trouble).items():
            self._say(name, f"no lease can be held on {host}: {why}")
        self._held[name] = lease
        self._again.pop(name, None)
        lease.keep(lambda _, now: self._lost(name, now))

    def _refuse(self, name: str, found: Locked, named: str | None) -> None:
        if named == name:
            raise DeploymentError(
                f"{name} is watched by {found.holder}",
                where=found.host,
                why=f"one watch is enough; its last sign of life was {found.silent:.0f} s ago",
                hint="if that run is gone: --break-lock",
            )
        if name not in self._again:
            self._say(name, f"is left to another watch: {found}")
        self._again[name] = time.monotonic() + _AGAIN

    def _lost(self, name: str, now: Locked | None) -> None:
        who = f"taken by {now.holder}" if now else "released by somebody"
        self._say(name, f"the lease of this watch was {who}; it is not supervised any more")

    def release(self) -> None:
        for lease in self._held.values():
            lease.release()
        self._held.clear()

    def holder(self, deployment: str) -> str | None:
        """Who else changes the deployment, as far as was seen."""
        return self._holders.get(deployment)

    def looked(self, deployment: str) -> float:
        """When the latest look at who changes it began (monotonic)."""
        return self._looked.get(deployment, 0.0)

    def note_holder(self, deployment: str, found: Locked) -> None:
        """Somebody was found to hold the lock; the next look says when that is over."""
        self._holders[deployment] = str(found.holder)

    def _poll(self, first: Mapping[str, str]) -> None:
        """Look at the locks on the first host of each deployment, whose lock decides."""
        busy = self._polling is not None and self._polling.is_alive()
        if busy or time.monotonic() < self._polled + _POLL:
            return
        self._polled = began = time.monotonic()

        def look() -> None:
            locks, silent = found_locks(self._pool, dict.fromkeys(first.values()))
            now = {
                lock.name: str(lock.holder)
                for lock in locks
                if first.get(lock.name) == lock.host and _another(lock)
            }
            kept = {n: who for n, who in self._holders.items() if first.get(n) in silent}
            self._holders = {**kept, **now}
            looked = [name for name, host in first.items() if host not in silent]
            self._looked = {**self._looked, **dict.fromkeys(looked, began)}

        def thread() -> None:
            with contextlib.suppress(KeyboardInterrupt):  # the pool was interrupted
                look()

        self._polling = threading.Thread(target=thread, daemon=True)
        self._polling.start()


def _another(lock: Locked) -> bool:
    """Neither this process, nor one that is gone and whose lock will be taken over."""
    mine = this_process("")
    own = (lock.holder.pid, lock.holder.started, lock.holder.boot, lock.holder.machine_id)
    if own == (os.getpid(), mine.started, mine.boot, mine.machine_id):
        return False
    return not is_gone(lock.holder, lock.silent)
