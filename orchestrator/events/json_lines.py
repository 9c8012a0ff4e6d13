"""Events as JSON lines, for programs."""

from __future__ import annotations

import json
from typing import Any, TextIO

from orchestrator.events.event import Event
from orchestrator.events.nodes_filter import NodesFilter


class JsonLines:
    """Writes every event as one line of JSON; `nodes` events only when there is something new."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._filter = NodesFilter()

    def __call__(self, event: Event) -> None:
        if event.kind == "nodes" and not self._filter.news(event.data):
            return
        self._stream.write(json.dumps(event_dict(event)) + "\n")
        self._stream.flush()

    def close(self) -> None:
        """Nothing is held back."""


def event_dict(event: Event) -> dict[str, Any]:
    """The event without what it does not say."""
    fields: dict[str, Any] = {"time": round(event.time, 3), "kind": event.kind}
    for name in ("message", "host", "replica", "rank", "task"):
        value = getattr(event, name)
        if value not in (None, ""):
            fields[name] = value
    if event.data:
        fields["data"] = dict(event.data)
    return fields
