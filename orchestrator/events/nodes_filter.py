"""Which of the many looks at the nodes are worth a line, where nothing can be redrawn."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from orchestrator.planning.service import group_name

HEARTBEAT = 30.0  # seconds


class NodesFilter:
    """Passes a `nodes` event when a state changed, and every 30 s so that one sees it lives."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._shown: dict[str, str] = {}
        self._beat = clock()

    def news(self, data: Mapping[str, Any]) -> list[str]:
        """The lines to print for this event; none when there is nothing new."""
        now = _states(data)
        changed = [line for key, line in now.items() if self._shown.get(key) != line]
        self._shown = now
        if changed:
            self._beat = self._clock()
            return changed
        if self._clock() - self._beat >= HEARTBEAT:
            self._beat = self._clock()
            return heartbeat(data)
        return []


def heartbeat(data: Mapping[str, Any]) -> list[str]:
    """One line for each replica that is being waited for, with the last line of its head's log."""
    lines = []
    for replica in data["replicas"]:
        if replica["state"] != "waiting":
            continue
        said = f" | {replica['last_line']}" if replica["last_line"] else ""
        lines.append(
            f"{group_name(replica['replica'])}: waiting for {data['seconds']:.0f} s: "
            f"{replica['detail']}{said}"
        )
    return lines


def _states(data: Mapping[str, Any]) -> dict[str, str]:
    states = {}
    for node in data["nodes"]:
        # Under prefill/decode each pool counts its ranks from 0, on one host or two.
        states[node["name"]] = (
            f"{group_name(node['replica'])} rank {node['rank']} on {node['host']}: {node['state']}"
        )
    for replica in data["replicas"]:
        text = f"{group_name(replica['replica'])}: {replica['state']}"
        states[group_name(replica["replica"])] = text
    return states
