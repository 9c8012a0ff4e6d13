"""What an action on one host is given."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.documents import expand_user
from orchestrator.errors import DeploymentError
from orchestrator.play.result import HostResult, Status
from orchestrator.play.run import Run
from orchestrator.play.variables import Variables
from orchestrator.transport.connection import Connection


@dataclass(frozen=True, slots=True)
class HostContext:
    """One host at one task. `directory` is the playbook's; `deadline` is the task's `timeout`."""

    run: Run
    connection: Connection
    variables: Variables
    directory: Path
    deadline: float | None = None  # time.monotonic()

    @property
    def host(self) -> str:
        return self.connection.host

    @property
    def timeout(self) -> float | None:
        """The seconds that are left. Raises DeploymentError when none are."""
        if self.deadline is None:
            return None
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise DeploymentError("the task's timeout is over", where=self.host)
        return max(round(left, 1), 0.1)

    def local_path(self, path: str) -> Path:
        """A file on this machine, relative to the playbook."""
        return self.directory / expand_user(path)

    def result(self, status: Status, message: str = "", **data: Any) -> HostResult:
        """The result of this host."""
        return HostResult(self.host, status, message, data=data)
