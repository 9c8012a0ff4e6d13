"""Commands on the machine that `orc` runs on (`ansible_connection: local`)."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from orchestrator.transport.connection import StreamSocket
from orchestrator.transport.remote_shell import command_line
from orchestrator.transport.shell_connection import ShellConnection


class LocalConnection(ShellConnection):
    """The same as a connection to a host, by subprocess.

    Commands start in the home directory, so that a relative path means the same as over SSH,
    and in a process group of their own, which ends with this process.
    """

    def open_socket(self, address: str, port: int, *, timeout: float) -> StreamSocket:
        return socket.create_connection((address, port), timeout)

    def close(self) -> None:
        """Nothing is held open between commands."""

    def _start(self, words: Sequence[str], deadline: float | None) -> _Process:  # noqa: ARG002 - never waits
        return _Process(words)


class _Process:
    """A local process as a Channel."""

    def __init__(self, words: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            ["sh", "-c", command_line(words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd=Path.home(),
            start_new_session=True,
        )
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._stdin = self._process.stdin
        os.set_blocking(self._stdin.fileno(), False)
        self._outputs = selectors.DefaultSelector()
        for name, pipe in (("stdout", self._process.stdout), ("stderr", self._process.stderr)):
            os.set_blocking(pipe.fileno(), False)
            self._outputs.register(pipe, selectors.EVENT_READ, name)

    def wait(self, seconds: float, *, writing: bool) -> None:
        if not self._outputs.get_map():
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
            return
        if writing and not self._stdin.closed:
            self._outputs.register(self._stdin, selectors.EVENT_WRITE)
        try:
            self._outputs.select(seconds)
        finally:
            if writing and not self._stdin.closed:
                self._outputs.unregister(self._stdin)

    def read(self) -> list[tuple[str, bytes]]:
        pieces = []
        for key, _ in self._outputs.select(0):
            data = os.read(key.fd, 1 << 16)
            if data:
                pieces.append((key.data, data))
            else:
                self._outputs.unregister(key.fileobj)
        return pieces

    def write(self, data: memoryview) -> int:
        try:
            return os.write(self._stdin.fileno(), data[: 1 << 16])
        except BlockingIOError:
            return 0
        except BrokenPipeError:
            return len(data)  # the command is gone; its exit status tells the rest

    def end_input(self) -> None:
        self._stdin.close()

    def exit_status(self) -> int | None:
        status = self._process.poll()
        return 128 - status if status is not None and status < 0 else status

    def drained(self) -> bool:
        return not self._outputs.get_map()

    def close(self) -> None:
        self._stdin.close()
        if self._process.poll() is None:
            # Not permitted under sudo, whose command ends by the end of its stdin.
            with contextlib.suppress(PermissionError, ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(1)
        self._outputs.close()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe:
                pipe.close()
