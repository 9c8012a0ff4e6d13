"""What a line of `--json` can be: every kind of event and its fields, as models and JSON Schema.

A reader may rely on what stands here. `data` of a task's result is what its action found out, and
open; so is what `done` holds beside its status.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Event(_Part):
    """What every line may have; a field that has nothing to say is left out."""

    time: float = Field(description="seconds since the epoch")
    message: str | None = Field(default=None, description="for a person; several lines at times")
    host: str | None = Field(default=None, description="the host that it is about")
    replica: int | None = Field(default=None, description="negative: the router, the KV store")
    rank: int | None = Field(default=None, description="within its replica, or within its pool")
    task: str | None = Field(default=None, description="the action of the task that it is of")


class Play(_Event):
    """A play begins; `message` is its name."""

    kind: Literal["play"]


class Task(_Event):
    """A task begins; `message` is its name."""

    kind: Literal["task"]
    data: dict[str, Any] | None = None


class Result(_Event):
    """A task ended on a host: it changed nothing, changed something, was passed over, failed, or
    the host was not reached. Without a host it ended the run."""

    kind: Literal["ok", "changed", "skipped", "failed", "unreachable"]
    data: dict[str, Any] | None = Field(default=None, description="what the action found out")


class Progress(_Event):
    """A step of something long."""

    kind: Literal["progress"]
    data: dict[str, Any] | None = None


class Note(_Event):
    """Something worth knowing, or worth a warning."""

    kind: Literal["note", "warning"]
    data: dict[str, Any] | None = None


class NodeState(_Part):
    replica: int
    rank: int
    name: str
    host: str
    state: str = Field(
        description="of its container: running, exited 1, no container, unknown, ..."
    )
    up_seconds: int | None


class ReplicaState(_Part):
    replica: int
    state: Literal["waiting", "healthy", "failed"]
    detail: str
    last_line: str = Field(description="of its head's log")


class NodesData(_Part):
    seconds: float = Field(description="since the wait began")
    timeout: float = Field(description="in seconds")
    replicas: list[ReplicaState]
    nodes: list[NodeState]


class Nodes(_Event):
    """How every node stands while one waits; only when something changed, or 30 s have passed."""

    kind: Literal["nodes"]
    data: NodesData


class FieldDifference(_Part):
    field: str
    planned: str | None
    running: str | None


class NodeDifference(_Part):
    host: str
    name: str
    replica: int
    rank: int
    by_hand: bool = Field(description="it was made as planned, and changed since")
    differences: list[FieldDifference]
    notes: list[str]


class DiffData(_Part):
    """What `orc diff --json` prints."""

    deployment: str
    nodes: list[NodeDifference]
    unreachable: dict[str, str]
    broken: dict[str, str]
    exit_status: int


class Diff(_Event):
    """What differs between the plan and what runs, before it is changed."""

    kind: Literal["diff"]
    data: DiffData


class Recap(_Event):
    """How many tasks ended how on each host; without `data` nothing was done on any."""

    kind: Literal["recap"]
    data: dict[str, dict[str, int]] | None = None


class DoneData(BaseModel):
    model_config = ConfigDict(extra="allow")

    exit_status: int = Field(description="of orc")
    deployment: str | None = None


class Done(_Event):
    """The end of the run, or of one of several deployments that are stopped."""

    kind: Literal["done"]
    data: DoneData


KINDS: tuple[type[_Event], ...] = (
    *(Play, Task, Result, Progress, Nodes, Note, Diff, Recap),
    Done,
)
EventLine = Annotated[
    Play | Task | Result | Progress | Nodes | Note | Diff | Recap | Done,
    Field(discriminator="kind"),
]


@cache
def _adapter() -> TypeAdapter[EventLine]:
    return TypeAdapter(EventLine)


def event_schema() -> dict[str, Any]:
    """The JSON Schema of one line."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A line of orc --json",
        **_adapter().json_schema(),
    }


def check_event(line: dict[str, Any]) -> EventLine:
    """A line as its model. Raises pydantic's ValidationError when it is none."""
    return _adapter().validate_python(line)
