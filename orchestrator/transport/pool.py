"""The connections of a run, and work on many hosts at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from orchestrator.errors import InputError, OrcError, did_you_mean
from orchestrator.inventory.host import Host
from orchestrator.transport.command import Interruption
from orchestrator.transport.connection import Connection
from orchestrator.transport.local import LocalConnection
from orchestrator.transport.remote_shell import GRACE
from orchestrator.transport.ssh_config import SshOptions

if TYPE_CHECKING:
    from orchestrator.transport.ssh import SshConnection

T = TypeVar("T")


class ConnectionPool:
    """One connection per host, made when first used. A context manager: leaving hangs up."""

    def __init__(self, hosts: Iterable[Host], options: SshOptions | None = None) -> None:
        from orchestrator.transport.ssh_connect import Hops
        from orchestrator.transport.ssh_keys import KeyRing

        self._hosts = {host.name: host for host in hosts}
        self._options = options or SshOptions()
        self._ring = KeyRing()
        self._hops = Hops(self._ring)
        self._lock = threading.Lock()
        self._connections: dict[str, LocalConnection | SshConnection] = {}
        self._interrupted = Interruption()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def add(self, host: Host) -> None:
        """One more host, such as the implicit `localhost`."""
        self._hosts.setdefault(host.name, host)

    def connection(self, name: str) -> Connection:
        """The connection to a host of the pool. Raises InputError for an unknown name."""
        with self._lock:
            if name not in self._connections:
                self._connections[name] = self._new(name)
            return self._connections[name]

    def _new(self, name: str) -> LocalConnection | SshConnection:
        host = self._hosts.get(name)
        if host is None:
            raise InputError(f"no host {name!r}", hint=did_you_mean(name, self._hosts))
        if host.connection.kind == "local":
            return LocalConnection(host, self._interrupted)
        from orchestrator.transport.ssh import SshConnection

        return SshConnection(
            host,
            self._options,
            ring=self._ring,
            hops=self._hops,
            interrupted=self._interrupted,
        )

    def map(
        self,
        names: Iterable[str],
        function: Callable[[Connection], T],
        *,
        forks: int | None = None,
    ) -> dict[str, T | OrcError]:
        """`function` on each host's connection, at most `forks` at once; results in given order.

        An OrcError is a host's result; any other exception is raised after what had begun has
        ended. On Ctrl-C nothing more begins, what runs on the hosts is ended, and
        KeyboardInterrupt is raised.
        """
        work = _Work(list(dict.fromkeys(names)), lambda name: function(self.connection(name)))
        work.start(min(forks or self._options.forks, len(work.names)))
        try:
            work.finish()
        except KeyboardInterrupt:
            work.stopped.set()
            self.interrupt()
            raise
        return work.results()

    def interrupt(self, running: Callable[[], bool] | None = None) -> None:
        """End the commands that run on the hosts, and wait until they are gone.

        Threads that wait for one get KeyboardInterrupt; while `running` says that the caller's
        own still do something, they are waited for, too. Both only for as long as it may take
        to kill a command. Afterwards the pool can be used again, to clean up.
        """
        interrupted = self._interrupted
        interrupted.set()
        try:
            until = time.monotonic() + GRACE + 3
            while time.monotonic() < until:
                if not interrupted.commands and not (running and running()):
                    break
                time.sleep(0.05)
        finally:
            with self._lock:
                self._interrupted = Interruption()
                for connection in self._connections.values():
                    connection.interrupted = self._interrupted

    def close(self) -> None:
        """Hang up everywhere. What still runs there by us ends by that."""
        with self._lock:
            connections, self._connections = list(self._connections.values()), {}
        for connection in connections:
            connection.close()
        self._hops.close()


class _Work:
    """Names taken one after the other by several threads."""

    def __init__(self, names: Sequence[str], function: Callable[[str], T]) -> None:
        self.names = list(names)
        self.stopped = threading.Event()
        self._function = function
        self._todo = iter(self.names)
        self._lock = threading.Lock()
        self._done: dict[str, object] = {}
        self._failure: BaseException | None = None
        self._threads: list[threading.Thread] = []

    def start(self, number: int) -> None:
        for _ in range(number):
            # Daemons: a host that does not answer must not keep the process from ending.
            thread = threading.Thread(target=self._work, daemon=True)
            self._threads.append(thread)
            thread.start()

    def finish(self) -> None:
        for thread in self._threads:
            thread.join()
        if self._failure:
            raise self._failure

    def results(self) -> dict[str, T | OrcError]:
        return {name: self._done[name] for name in self.names}  # type: ignore[misc]

    def _work(self) -> None:
        while not self.stopped.is_set():
            with self._lock:
                name = next(self._todo, None)
            if name is None:
                return
            try:
                self._done[name] = self._function(name)
            except OrcError as error:
                error.host = name
                self._done[name] = error
            except BaseException as error:
                self._failure = self._failure or error
                self.stopped.set()
