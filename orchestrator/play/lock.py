"""One change at a time: the lock of a deployment, held on every host that it concerns."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.errors import DeploymentError, OrcError
from orchestrator.health.observation import run_script
from orchestrator.play.holder import Holder, parse_holder
from orchestrator.runtime.lock_scripts import (
    HELD,
    LOST,
    Kind,
    beat_lock_script,
    list_locks_script,
    parse_locks,
    release_lock_script,
    take_lock_script,
)
from orchestrator.transport.connection import CommandResult, Connection
from orchestrator.transport.pool import ConnectionPool

HEARTBEAT = 15.0  # seconds between two signs of life
_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True)
class Locked:
    """A lock as it was found: on which host, whose, and how many seconds since its last sign."""

    host: str
    name: str
    holder: Holder
    silent: float

    def __str__(self) -> str:
        return f"{self.holder} (last sign of life {self.silent:.0f} s ago, on {self.host})"


OnLost = Callable[[str, Locked | None], None]  # on which host, and who has the lock now


class LockedError(DeploymentError):
    """Another run of orc changes the deployment."""

    def __init__(self, name: str, found: Locked) -> None:
        self.found = found
        super().__init__(
            f"{name} is being changed by {found.holder}",
            where=found.host,
            why=f"one change at a time; its last sign of life was {found.silent:.0f} s ago",
            hint="wait for it: --lock-timeout 10m; "
            f"or, if that run is gone: orc lock release {name}",
        )


class HeldLock:
    """A lock that this process holds. Its heartbeat runs until it is released."""

    def __init__(
        self, pool: ConnectionPool, name: str, holder: Holder, kind: Kind = "locks"
    ) -> None:
        self.pool = pool
        self.name = name
        self.holder = holder
        self.kind: Kind = kind
        self.hosts: list[str] = []
        self.lost: dict[str, Locked | None] = {}  # by host, who has it now
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def take(
        self, hosts: Sequence[str], replaceable: Iterable[str]
    ) -> tuple[Locked | None, list[Locked], dict[str, str]]:
        """Take the lock on the hosts, the first one first: it decides.

        (who holds it; the other locks of these hosts; why it could not be taken on a host). Where
        somebody holds it, what was newly taken is released.
        """
        script = take_lock_script(
            self.kind, self.name, self.holder.id, self.holder.to_json(), replaceable
        )
        before = list(self.hosts)
        others: list[Locked] = []
        trouble: dict[str, str] = {}
        for some in (hosts[:1], hosts[1:]):
            # Before it is known: what an interruption leaves behind is released as well.
            self.hosts += [host for host in some if host not in before]
            answers = self.pool.map(some, lambda c: run_script(c, script, timeout=_TIMEOUT))
            held: Locked | None = None
            for host, answer in answers.items():
                if isinstance(answer, OrcError):
                    trouble[host] = answer.reason
                elif answer.ok:
                    others += _locks(host, answer)
                elif answer.exit_status == HELD:
                    held = held or next(iter(_locks(host, answer)), None)
                else:
                    trouble[host] = (answer.stderr.strip() or "no reason given").splitlines()[-1]
                    self.hosts.remove(host)
            if held is not None:
                self._release([host for host in self.hosts if host not in before])
                self.hosts = before
                return held, [], {}
        return None, others, trouble

    def keep(self, on_lost: OnLost) -> None:
        """Send signs of life from now on. `on_lost(host, who)` is called once, from a thread."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._beat, args=(on_lost,), daemon=True)
            self._thread.start()

    def release(self) -> None:
        """Remove the lock where it is still this process's. Raises nothing for hosts."""
        self._stop.set()
        self._release([host for host in self.hosts if host not in self.lost])
        self.hosts = []

    def _release(self, hosts: Sequence[str]) -> None:
        script = release_lock_script(self.kind, self.name, self.holder.id)
        self.pool.map(hosts, lambda c: run_script(c, script, timeout=_TIMEOUT))

    def _beat(self, on_lost: OnLost) -> None:
        script = beat_lock_script(self.kind, self.name, self.holder.id)
        while not self._stop.wait(HEARTBEAT):
            hosts = [host for host in self.hosts if host not in self.lost]
            # An interrupted run releases the lock in a moment, by itself.
            with contextlib.suppress(KeyboardInterrupt):
                self._hear(
                    self.pool.map(hosts, lambda c: run_script(c, script, timeout=_TIMEOUT)),
                    on_lost,
                )

    def _hear(self, answers: Mapping[str, CommandResult | OrcError], on_lost: OnLost) -> None:
        """A host that does not answer has not said that the lock is lost."""
        for host, answer in answers.items():
            if isinstance(answer, OrcError) or answer.exit_status != LOST or self._stop.is_set():
                continue
            self.lost[host] = next(iter(_locks(host, answer)), None)
            if len(self.lost) == 1:
                on_lost(host, self.lost[host])


def _locks(host: str, answer: CommandResult) -> list[Locked]:
    return [
        Locked(host, name, parse_holder(line), age)
        for name, (age, line) in parse_locks(answer.stdout).items()
    ]


def found_locks(
    pool: ConnectionPool, hosts: Iterable[str], kind: Kind = "locks"
) -> tuple[list[Locked], dict[str, OrcError]]:
    """All locks of the hosts, and why a host said nothing."""
    script = list_locks_script(kind)
    return _gather(pool, hosts, lambda c: run_script(c, script, timeout=_TIMEOUT))


def release_locks(
    pool: ConnectionPool, hosts: Iterable[str], name: str, kind: Kind = "locks"
) -> tuple[list[Locked], dict[str, OrcError]]:
    """Release the lock `name` on the hosts, whoever holds it; returns what was released."""
    script = release_lock_script(kind, name)
    return _gather(pool, hosts, lambda c: run_script(c, script, timeout=_TIMEOUT))


def _gather(
    pool: ConnectionPool, hosts: Iterable[str], ask: Callable[[Connection], CommandResult]
) -> tuple[list[Locked], dict[str, OrcError]]:
    found: list[Locked] = []
    silent: dict[str, OrcError] = {}
    for host, answer in pool.map(hosts, ask).items():
        if isinstance(answer, OrcError):
            silent[host] = answer
        elif answer.ok:
            found += _locks(host, answer)
        elif answer.exit_status != LOST:
            why = answer.stderr.strip() or f"status {answer.exit_status}"
            silent[host] = DeploymentError(f"its locks cannot be read: {why}", where=host)
    return found, silent
