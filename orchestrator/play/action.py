"""What an action is: a name, the arguments that it takes, and a function that does it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from orchestrator.play.host_context import HostContext
from orchestrator.play.result import HostResult, Report
from orchestrator.play.run import Run

Level = Literal["batch", "replica", "deployment"]


class Arguments(BaseModel):
    """The arguments of an action; an unknown one is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    takes_secrets: ClassVar[frozenset[str]] = frozenset()  # arguments that may hold secret values


@dataclass(frozen=True, slots=True)
class Action:
    """`perform(run, arguments, report)` reports each host's result as soon as it is known.

    It raises OrcError for what stops the whole play. Where `applies` says no, the task is passed
    over without a word. A value that is no mapping of arguments is that of `free`.

    `level` says what it acts on: the replicas of `run.scope`, the whole deployment at once, or
    nothing but the batch itself (a pause), for which it is called once. See HostAction for what
    is done on every host.
    """

    name: str
    arguments: type[Arguments]
    perform: Callable[[Run, Any, Report], None]
    applies: Callable[[Run], bool] = lambda _: True
    level: Level = "deployment"
    free: str | None = None


@dataclass(frozen=True, slots=True)
class HostAction:
    """An action that is done on each host by itself, at most `forks` at once.

    `perform(context, arguments)` returns the host's result, or raises OrcError, which fails that
    host alone. Its arguments are filled in with the host's variables.
    """

    name: str
    arguments: type[Arguments]
    perform: Callable[[HostContext, Any], HostResult]
    free: str | None = None

    @property
    def level(self) -> Literal["host"]:
        return "host"


AnyAction = Action | HostAction
