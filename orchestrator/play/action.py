"""What an action is: a name, the arguments that it takes, and a function that does it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from orchestrator.play.run import Run

Status = Literal["ok", "changed", "skipped", "failed", "unreachable"]


class Arguments(BaseModel):
    """The arguments of an action; an unknown one is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True)
class HostResult:
    """How a task went on one host."""

    host: str
    status: Status
    message: str = ""
    replica: int | None = None
    rank: int | None = None
    data: dict[str, Any] = field(default_factory=dict)


Report = Callable[[HostResult], None]


@dataclass(frozen=True, slots=True)
class Action:
    """`perform(run, arguments, report)` reports each host's result as soon as it is known.

    It raises OrcError for what stops the whole play. Where `applies` says no, the task is passed
    over without a word.
    """

    name: str
    arguments: type[Arguments]
    perform: Callable[[Run, Any, Report], None]
    applies: Callable[[Run], bool] = lambda _: True
