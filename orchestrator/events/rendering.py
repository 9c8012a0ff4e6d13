"""What shows events."""

from __future__ import annotations

from typing import Protocol

from orchestrator.events.event import Event


class Rendering(Protocol):
    """An observer of events that has to be closed at the end."""

    def __call__(self, event: Event, /) -> None: ...
    def close(self) -> None: ...
