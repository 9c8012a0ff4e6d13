"""Log lines after the name of their rank: as text, in colour on a terminal, or as JSON."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Iterable, Sequence

from orchestrator.events.console import use_colour
from orchestrator.planning.service import short_group_name
from orchestrator.runtime.containers import ContainerState
from orchestrator.runtime.log_lines import LogLine
from orchestrator.secret import Secret, redact

_COLOUR_CODE = re.compile(r"\x1b\[[0-9;]*m")  # what a process writes for a terminal
_COLOURS = ("36", "33", "32", "35", "34", "31")


class LogPrinter:
    """Writes each line at once, without the `secrets`. `states` are those known at the start."""

    def __init__(
        self,
        states: Iterable[ContainerState],
        *,
        timestamps: bool,
        as_json: bool,
        several: bool,
        secrets: Sequence[Secret] = (),
    ) -> None:
        self._several = several  # deployments: each line names its own
        self._labels: dict[str, str] = {}
        for state in states:
            self._label(state)
        self._colour = use_colour(sys.stdout) and not as_json
        self._timestamps = timestamps
        self._as_json = as_json
        self._secrets = list(secrets)
        self._lock = threading.Lock()

    def __call__(self, state: ContainerState, line: LogLine) -> None:
        text = redact(line.text, self._secrets)
        if not self._colour:
            text = _COLOUR_CODE.sub("", text)
        with self._lock:
            if self._as_json:
                sys.stdout.write(json.dumps(_as_dict(state, line.time, text)) + "\n")
            else:
                sys.stdout.write(self._text(state, line.time, text) + "\n")
            sys.stdout.flush()

    def _text(self, state: ContainerState, time: str, text: str) -> str:
        label = self._label(state)
        width = max(map(len, self._labels.values()))
        prefix = f"{label:<{width}} |"
        if self._colour:
            number = list(self._labels).index(state.id)
            prefix = f"\x1b[{_COLOURS[number % len(_COLOURS)]}m{prefix}\x1b[0m"
        return f"{prefix}{f' {time}' if self._timestamps else ''} {text}"

    def _label(self, state: ContainerState) -> str:
        name = f"{state.deployment} " if self._several else ""
        label = f"{name}{state.host} {short_group_name(state.replica)} n{state.rank}"
        return self._labels.setdefault(state.id, label)


def _as_dict(state: ContainerState, time: str, text: str) -> dict[str, object]:
    return {
        "time": time,
        "deployment": state.deployment,
        "host": state.host,
        "replica": state.replica,
        "rank": state.rank,
        "container": state.name,
        "text": text,
    }
