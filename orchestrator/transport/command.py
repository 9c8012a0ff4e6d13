"""Running one command to its end: its input, its output, its deadline, its interruption.

The loop is the same for a channel of an SSH connection and for a local process.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from orchestrator.errors import DeploymentError, UnreachableError
from orchestrator.secret import Secret
from orchestrator.transport.beginning import Beginning
from orchestrator.transport.connection import CommandResult, LineSink
from orchestrator.transport.hang_up import hang_up
from orchestrator.transport.lines import LineSplitter
from orchestrator.transport.remote_shell import GRACE, Become, display_name, guarded

# What `run` keeps of one command's output. More is not an answer but an accident.
MOST_OUTPUT = 256 << 20
# How often a waiting loop looks at its deadline and at an interruption.
_SLICE = 0.25
# A command that has ended may leave a process behind that holds its output open: after so many
# silent seconds it is not waited for.
_LINGER = 10


class Channel(Protocol):
    """A started command's streams. Nothing here blocks but `wait`."""

    def wait(self, seconds: float, *, writing: bool) -> None:
        """Until output, room for input (when `writing`) or the end may be there."""

    def read(self) -> list[tuple[str, bytes]]:
        """What has come since: ("stdout" | "stderr", data)."""

    def write(self, data: memoryview) -> int:
        """How many bytes of `data` were taken now."""

    def end_input(self) -> None: ...

    def exit_status(self) -> int | None:
        """None while it runs; 128 + n when signal n ended it."""

    def drained(self) -> bool:
        """Whether all output has been read and none can come."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class BecomeUser:
    """sudo on one host: whom to become, and the password if it takes one."""

    user: str
    password: Secret | None


class Interruption(threading.Event):
    """Set when the run is interrupted; counts the commands that have to end by that."""

    def __init__(self) -> None:
        super().__init__()
        self._counting = threading.Lock()
        self.commands = 0

    def check(self) -> None:
        """Raises KeyboardInterrupt once it is set."""
        if self.is_set():
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def command(self) -> Iterator[None]:
        """While a command runs."""
        with self._counting:
            self.commands += 1
        try:
            yield
        finally:
            with self._counting:
                self.commands -= 1


Start = Callable[[Sequence[str], float | None], Channel]  # words, and a deadline (monotonic)


@dataclass(frozen=True, slots=True)
class Shell:
    """Where commands run: how to start one, who runs it, and what may interrupt it."""

    host: str
    start: Start
    become: BecomeUser | None
    interrupted: Interruption

    def run(self, argv: Sequence[str], stdin: str, timeout: float | None) -> CommandResult:
        """Run `argv` and collect its output."""
        began = time.monotonic()
        kept = {"stdout": bytearray(), "stderr": bytearray()}

        def keep(stream: str, data: bytes) -> None:
            if len(kept[stream]) + len(data) > MOST_OUTPUT:
                raise DeploymentError(
                    f"{display_name(argv)} was ended: "
                    f"more than {MOST_OUTPUT >> 20} MiB of {stream}",
                    where=self.host,
                    hint="send its output to a file on the host, or read it line by line",
                )
            kept[stream] += data

        status = self._execute(argv, stdin, timeout, keep)
        out, err = (bytes(kept[name]).decode(errors="replace") for name in ("stdout", "stderr"))
        return CommandResult(status, out, err, time.monotonic() - began)

    def stream(self, argv: Sequence[str], sink: LineSink, stdin: str, timeout: float | None) -> int:
        """Run `argv` and hand over its output line by line."""
        splitters = {"stdout": LineSplitter(), "stderr": LineSplitter()}

        def split(stream: str, data: bytes) -> None:
            for line in splitters[stream].feed(data):
                sink(stream, line)

        status = self._execute(argv, stdin, timeout, split)
        for stream, splitter in splitters.items():
            for line in splitter.end():
                sink(stream, line)
        return status

    def _execute(
        self,
        argv: Sequence[str],
        stdin: str,
        timeout: float | None,
        output: Callable[[str, bytes], None],
    ) -> int:
        self.interrupted.check()
        deadline = None if timeout is None else time.monotonic() + timeout
        data = stdin.encode()
        token = secrets.token_hex(8)
        beginning = Beginning(f"orc-begin-{token}")
        become = self._become(token)
        channel = self.start(guarded(argv, len(data), beginning.marks, become), deadline)
        gate = _Gate(self.host, become, self.become, beginning) if become and self.become else None
        try:
            with self.interrupted.command(), _ended_on_error(channel):
                for stream, piece in self._attend(channel, beginning, gate, data, deadline):
                    output(stream, piece)
                status = channel.exit_status()
        except _TookTooLong:
            raise DeploymentError(
                f"{display_name(argv)} took more than {timeout:g} s and was ended",
                where=self.host,
                why=None if beginning.reached else _not_begun(beginning),
            ) from None
        finally:
            hang_up(channel)
        assert status is not None
        if gate:
            gate.check(status)
        beginning.check(self.host, status)
        return status

    def _attend(
        self,
        channel: Channel,
        beginning: Beginning,
        gate: _Gate | None,
        data: bytes,
        deadline: float | None,
    ) -> Iterator[tuple[str, bytes]]:
        """Feed the command and yield its output until it has ended."""
        pending = memoryview(data if gate is None or gate.open_at_once else b"")
        heard = time.monotonic()
        while not _over(channel, heard):
            self.interrupted.check()
            if deadline is not None and time.monotonic() > deadline:
                raise _TookTooLong
            if pending:
                pending = pending[channel.write(pending) :]
            channel.wait(_SLICE, writing=bool(pending))
            for stream, piece in channel.read():
                heard = time.monotonic()
                closed = gate is not None and not gate.passed
                own = beginning.feed(stream, piece)
                if gate and closed:
                    reply = gate.look()
                    if reply or (gate.passed and not gate.open_at_once):
                        pending = memoryview(reply or data)
                if own:
                    yield stream, own

    def _become(self, token: str) -> Become | None:
        if self.become is None:
            return None
        prompt = f"orc-password-{token}:" if self.become.password else None
        return Become(self.become.user, prompt)


class _Gate:
    """Whether sudo has let us through, and the answer to its question.

    The password is sent when sudo asks and only then, so it can never become the command's
    input; the command's input is sent only after sudo is done reading.
    """

    def __init__(self, host: str, become: Become, user: BecomeUser, beginning: Beginning) -> None:
        self._host = host
        self._become = become
        self._user = user
        self._beginning = beginning
        self._asked = 0
        self.open_at_once = become.prompt is None

    @property
    def passed(self) -> bool:
        return self._beginning.reached

    def look(self) -> bytes:
        """What to answer to what has come."""
        prompt = self._become.prompt
        if self.passed or prompt is None:
            return b""
        asked = self._beginning.before("stderr").count(prompt)
        if asked <= self._asked:
            return b""
        self._asked = asked
        if asked > 1:
            raise self._refused("the password was wrong", "check ansible_become_password")
        assert self._user.password is not None
        return self._user.password.reveal().encode() + b"\n"

    def check(self, status: int) -> None:
        """Raises UnreachableError when the command ended before sudo let it through."""
        if self.passed:
            return
        said = self._beginning.said.replace(str(self._become.prompt), "").strip()
        if "password is required" in said or "terminal is required" in said:
            raise self._refused("it asks for a password", "give ansible_become_password")
        raise self._refused(
            said or f"exit status {status}", "look at sudoers and ansible_become_user"
        )

    def _refused(self, why: str, hint: str) -> UnreachableError:
        return UnreachableError(
            f"cannot become {self._user.user} by sudo", where=self._host, why=why, hint=hint
        )


def _not_begun(beginning: Beginning) -> str:
    said = beginning.said
    return f"the login shell had not begun it{f', and said: {said}' if said else ''}"


def _over(channel: Channel, heard: float) -> bool:
    if channel.exit_status() is None:
        return False
    return channel.drained() or time.monotonic() - heard > _LINGER


class _TookTooLong(Exception):
    pass


@contextlib.contextmanager
def _ended_on_error(channel: Channel) -> Iterator[None]:
    """Whatever goes wrong here, the command does not run on."""
    try:
        yield
    except UnreachableError:
        raise  # the connection is gone, or sudo refused: no command runs on
    except BaseException:
        _end(channel)
        raise


def _end(channel: Channel) -> None:
    """End the command and wait until it is gone, for as long as it may take to be killed."""
    until = time.monotonic() + GRACE + 2
    try:
        channel.end_input()
        while channel.exit_status() is None and time.monotonic() < until:
            channel.wait(_SLICE, writing=False)
            channel.read()
    except (UnreachableError, OSError):
        return  # the connection is gone, and the command ends by that
