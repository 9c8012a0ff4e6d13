"""What happened, as data. The engine emits events; renderings for people and programs observe."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal[
    "play",  # a play begins
    "task",  # a task begins
    "ok",  # a task changed nothing on a host
    "changed",  # a task changed a host
    "skipped",
    "failed",  # a task failed on a host
    "unreachable",
    "progress",  # a step of something long
    "nodes",  # the state of every node, for the live table
    "note",  # something worth knowing
    "warning",
    "diff",  # what differs between the plan and what runs
    "recap",  # how many tasks ended how on each host
    "done",  # the end of the run, with its result
]


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened. `time` is seconds since the epoch."""

    kind: Kind
    message: str = ""
    host: str | None = None
    replica: int | None = None
    rank: int | None = None
    task: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    time: float = field(default_factory=time.time)


Emit = Callable[[Event], None]
