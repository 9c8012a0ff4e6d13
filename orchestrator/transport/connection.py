"""What a connection to a host can do; every effect on a host goes through it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a remote command ended. Output is text; undecodable bytes are replaced."""

    exit_status: int
    stdout: str
    stderr: str
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return self.exit_status == 0


LineSink = Callable[[str, str], None]  # (stream: "stdout" | "stderr", one line without its end)


class StreamSocket(Protocol):
    """The part of a socket that an HTTP client needs; a paramiko channel has it too."""

    def sendall(self, data: bytes, /) -> None: ...
    def recv(self, size: int, /) -> bytes: ...
    def settimeout(self, seconds: float | None, /) -> None: ...
    def close(self) -> None: ...


class Connection(Protocol):
    """A host to run commands on.

    All methods raise UnreachableError when the host cannot be reached or the connection
    breaks; a command that fails is a CommandResult, never an exception, and is never retried.
    `argv` is quoted in one place, by shlex. Becoming another user (`ansible_become`) is done
    inside.
    """

    @property
    def host(self) -> str: ...

    def run(
        self, argv: Sequence[str], *, stdin: str = "", timeout: float | None = None
    ) -> CommandResult:
        """Run `argv`. Raises DeploymentError when it takes more than `timeout` seconds."""

    def script(
        self, text: str, arguments: Sequence[str] = (), *, timeout: float | None = None
    ) -> CommandResult:
        """Run `text` by `sh`, sent over stdin, so nothing of it shows in `ps`."""

    def stream(
        self, argv: Sequence[str], sink: LineSink, *, stdin: str = "", timeout: float | None = None
    ) -> int:
        """Run `argv`, hand over each line as it comes, and return the exit status."""

    def open_socket(self, address: str, port: int, *, timeout: float) -> StreamSocket:
        """A TCP stream to `address`:`port` as seen from the host (over SSH: direct-tcpip).

        Raises OSError when the port does not answer.
        """

    def close(self) -> None: ...
