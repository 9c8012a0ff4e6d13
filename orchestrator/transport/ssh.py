"""Commands on a host over SSH: one connection for the whole run, a channel per command."""

from __future__ import annotations

import contextlib
import select
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.errors import DeploymentError, UnreachableError
from orchestrator.inventory.host import Host
from orchestrator.transport.command import Interruption
from orchestrator.transport.connection import StreamSocket
from orchestrator.transport.hang_up import hang_up
from orchestrator.transport.remote_shell import command_line
from orchestrator.transport.shell_connection import ShellConnection
from orchestrator.transport.ssh_config import SshOptions, SshTarget, resolve
from orchestrator.transport.ssh_connect import Approach, Hops, timed_out
from orchestrator.transport.ssh_keys import KeyRing

if TYPE_CHECKING:
    import paramiko

MAX_SESSIONS = 10  # sshd's default; a lower one is found out
_OPEN_TIMEOUT = 30.0
_PIECE = 1 << 15


class SshConnection(ShellConnection):
    """A Connection over SSH. It is made when first used, and once more after it broke."""

    def __init__(
        self,
        host: Host,
        options: SshOptions | None = None,
        *,
        ring: KeyRing | None = None,
        hops: Hops | None = None,
        interrupted: Interruption | None = None,
    ) -> None:
        super().__init__(host, interrupted)
        self._options = options or SshOptions()
        self._ring = ring or KeyRing()
        self._own_hops = None if hops else Hops(self._ring)
        self._hops = hops or self._own_hops or Hops(self._ring)
        self._lock = threading.Lock()
        self._approach = Approach()
        self._transport: paramiko.Transport | None = None
        self._target: SshTarget | None = None
        self._sessions = _Sessions()
        self._closed = False

    def open_socket(self, address: str, port: int, *, timeout: float) -> StreamSocket:
        import paramiko

        transport = self._live()
        try:
            channel = transport.open_channel(
                "direct-tcpip", (address, port), ("127.0.0.1", 0), timeout=timeout
            )
        except paramiko.ChannelException as error:
            if error.code == 1:
                raise DeploymentError(
                    f"sshd does not let {address}:{port} through",
                    where=self.host,
                    why=error.text,
                    hint="allow it with AllowTcpForwarding and PermitOpen in its sshd_config",
                ) from None
            raise ConnectionRefusedError(f"{self.host}: {address}:{port}: {error.text}") from None
        except (paramiko.SSHException, EOFError) as error:
            if not transport.is_active():
                raise self._broken() from None
            kind = TimeoutError if timed_out(error) else ConnectionRefusedError
            raise kind(f"{self.host}: {address}:{port}: {error}") from None
        channel.settimeout(timeout)
        return channel

    def close(self) -> None:
        """Hang up. Commands that still run there end by that."""
        self._closed = True  # no lock: whoever is connecting holds it, and need not be waited for
        if self._transport:
            hang_up(self._transport)
        if self._own_hops:
            self._own_hops.close()

    def _live(self) -> paramiko.Transport:
        with self._lock:
            if self._transport is None or not self._transport.is_active():
                self._target = self._target or resolve(self._host, self._options)
                self._closed = False
                self._transport = self._approach.connect(
                    self._target, self._hops, self._ring, self.interrupted
                )
                if self._closed:
                    hang_up(self._transport)
            return self._transport

    def _start(self, words: Sequence[str], deadline: float | None) -> _SshChannel:
        """Start a command. Until it is sent, a broken connection is made anew, once."""
        patience = _Patience(self.host, self.interrupted, deadline)
        self._sessions.enter(patience)
        try:
            channel = self._open(patience)
            try:
                channel.exec_command(command_line(words))
            except Exception:
                raise self._broken() from None
            return _SshChannel(channel, self._broken, self._sessions.leave)
        except BaseException:
            self._sessions.leave()
            raise

    def _open(self, patience: _Patience) -> paramiko.Channel:
        import paramiko

        renewed = False
        pauses = iter((0.05, 0.2, 0.5, 1.0))
        while True:
            transport = self._live()
            try:
                return transport.open_session(timeout=_OPEN_TIMEOUT)
            except (paramiko.SSHException, EOFError, OSError) as error:
                if transport.is_active() and not timed_out(error):
                    self._refused(error, pauses, patience)
                    continue
                hang_up(transport)  # it may still be up, and not answer
                if renewed:
                    raise self._broken() from None
                renewed = True

    def _refused(self, error: Exception, pauses: Iterator[float], patience: _Patience) -> None:
        """Wait until a session may be had: MaxSessions is lower than we thought, or sshd still
        counts one that has just ended."""
        if self._sessions.wait_for_another(patience):
            return
        pause = next(pauses, None)
        if pause is None:
            raise UnreachableError(
                "sshd opens no session",
                where=self._place(),
                why=str(error),
                hint="look at MaxSessions and sshd's log on the host",
            )
        time.sleep(pause)

    def _place(self) -> str:
        return self._target.place if self._target else self.host

    def _broken(self) -> UnreachableError:
        return UnreachableError(
            "the connection broke during a command",
            where=self._place(),
            why="it was closed by the other side, or nothing came back in time",
            hint="what the command has done is unknown; look with `orc status`, then run again",
        )


@dataclass(frozen=True, slots=True)
class _Patience:
    """How long a command waits for others of its connection to end."""

    host: str
    interrupted: Interruption
    deadline: float | None

    def check(self, running: int) -> None:
        """Raises KeyboardInterrupt, or DeploymentError once the deadline is over."""
        self.interrupted.check()
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise DeploymentError(
                "no session was free in time",
                where=self.host,
                why=f"sshd allows {running} at once on this connection, and other commands of this"
                " run had them all",
                hint="allow more with MaxSessions in its sshd_config",
            )


class _Sessions:
    """How many commands may run at once on one connection."""

    def __init__(self) -> None:
        self._free = threading.Condition()
        self._limit = MAX_SESSIONS
        self._running = 0

    def enter(self, patience: _Patience) -> None:
        with self._free:
            while self._running >= self._limit:
                self._wait(patience)
            self._running += 1

    def leave(self) -> None:
        with self._free:
            self._running -= 1
            self._free.notify_all()

    def wait_for_another(self, patience: _Patience) -> bool:
        """After a refusal: lower the limit and wait for an end; False when nothing else runs."""
        with self._free:
            others = self._running - 1
            if others < 1:
                return False
            self._limit = max(1, min(self._limit, others))
            self._running -= 1
            try:
                while self._running >= self._limit:
                    self._wait(patience)
            finally:
                self._running += 1
            return True

    def _wait(self, patience: _Patience) -> None:
        self._free.wait(0.25)
        patience.check(self._limit)


class _SshChannel:
    """A paramiko channel as a Channel."""

    def __init__(
        self,
        channel: paramiko.Channel,
        broken: Callable[[], UnreachableError],
        closed: Callable[[], None],
    ) -> None:
        self._channel = channel
        self._broken = broken
        self._closed: Callable[[], None] | None = closed
        channel.setblocking(0)
        self._ready = select.poll()
        self._ready.register(channel.fileno(), select.POLLIN)

    def wait(self, seconds: float, *, writing: bool) -> None:
        if writing and self._channel.send_ready():
            return
        if self.drained():
            # The pipe stays readable from now on; only the exit status is missing.
            self._channel.status_event.wait(seconds)
            return
        # Nothing tells of room to write: look again soon.
        self._ready.poll((0.01 if writing else seconds) * 1000)

    def read(self) -> list[tuple[str, bytes]]:
        pieces: list[tuple[str, bytes]] = []
        while self._channel.recv_ready() and len(pieces) < 16:
            pieces.append(("stdout", self._channel.recv(_PIECE)))
        while self._channel.recv_stderr_ready() and len(pieces) < 32:
            pieces.append(("stderr", self._channel.recv_stderr(_PIECE)))
        return pieces

    def write(self, data: memoryview) -> int:
        if not self._channel.send_ready():
            return 0
        try:
            return self._channel.send(bytes(data[:_PIECE]))
        except TimeoutError:
            return 0
        except OSError:  # closed: the exit status, or its absence, tells the rest
            return len(data)

    def end_input(self) -> None:
        self._channel.shutdown_write()

    def exit_status(self) -> int | None:
        if not self._channel.exit_status_ready():
            return None
        status = self._channel.recv_exit_status()
        ended = self._channel.eof_received
        if status >= 0 and (ended or self._alive()):
            return status
        if not self._alive():
            raise self._broken()
        # paramiko does not read "exit-signal". The shell around the command reports the signals
        # of the command; that it is itself gone without a status is the work of KILL.
        return 128 + 9 if status < 0 else status

    def drained(self) -> bool:
        channel = self._channel
        over = channel.eof_received or channel.closed
        return bool(over) and not channel.recv_ready() and not channel.recv_stderr_ready()

    def close(self) -> None:
        with contextlib.suppress(Exception):
            hang_up(self._channel)
        if self._closed:
            self._closed()
            self._closed = None

    def _alive(self) -> bool:
        """Whether the connection stands. It closes its channels just before it says so."""
        transport = self._channel.get_transport()
        if not transport.is_active():
            return False
        if self._channel.closed and self._channel.recv_exit_status() < 0:
            time.sleep(0.2)
        return bool(transport.is_active())
