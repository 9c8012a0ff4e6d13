"""How a task went on a host."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from orchestrator.errors import OrcError, UnreachableError

Status = Literal["ok", "changed", "skipped", "failed", "unreachable"]


@dataclass(frozen=True, slots=True)
class HostResult:
    """How a task went on one host. `data` is what `register` keeps beside status and message."""

    host: str
    status: Status
    message: str = ""
    replica: int | None = None
    rank: int | None = None
    data: dict[str, Any] = field(default_factory=dict)


Report = Callable[[HostResult], None]


def status_of(error: OrcError) -> Status:
    """What an error on a host makes of it."""
    return "unreachable" if isinstance(error, UnreachableError) else "failed"
