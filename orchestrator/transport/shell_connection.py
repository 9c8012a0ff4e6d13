"""What connections of every kind do alike: commands, scripts and streams over a `Shell`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from orchestrator.inventory.host import Host
from orchestrator.transport.command import BecomeUser, Channel, Interruption, Shell
from orchestrator.transport.connection import CommandResult, LineSink


class ShellConnection(ABC):
    """A Connection whose commands are run by a shell; only how one is started differs."""

    def __init__(self, host: Host, interrupted: Interruption | None = None) -> None:
        self._host = host
        settings = host.connection
        become = BecomeUser(settings.become_user or "root", settings.become_password)
        self._become = become if settings.become else None
        self.interrupted = interrupted or Interruption()

    @property
    def host(self) -> str:
        return self._host.name

    def run(
        self, argv: Sequence[str], *, stdin: str = "", timeout: float | None = None
    ) -> CommandResult:
        return self._shell().run(argv, stdin, timeout)

    def script(
        self, text: str, arguments: Sequence[str] = (), *, timeout: float | None = None
    ) -> CommandResult:
        return self._shell().run(["sh", "-s", "--", *arguments], text, timeout)

    def stream(
        self, argv: Sequence[str], sink: LineSink, *, stdin: str = "", timeout: float | None = None
    ) -> int:
        return self._shell().stream(argv, sink, stdin, timeout)

    @abstractmethod
    def _start(self, words: Sequence[str], deadline: float | None) -> Channel:
        """Start a command. Raises DeploymentError where it could not begin until `deadline`."""

    def _shell(self) -> Shell:
        return Shell(self.host, self._start, self._become, self.interrupted)
