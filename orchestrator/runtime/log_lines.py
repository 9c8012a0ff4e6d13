"""Log lines as `docker logs --timestamps` prints them, and their order over many containers."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d) ?")


@dataclass(frozen=True, slots=True, order=True)
class LogLine:
    """A line with its time: ISO 8601 in UTC, with nine digits, so that text sorts as time does."""

    time: str
    source: str  # the container's name
    text: str


def parse_log_line(source: str, line: str, previous: str = "") -> LogLine:
    """One line; one without a time (from docker itself) gets that of the line before."""
    match = _TIME.match(line)
    if match is None:
        return LogLine(previous, source, line)
    whole, fraction, _ = match.groups()
    return LogLine(f"{whole}.{(fraction or '').ljust(9, '0')[:9]}Z", source, line[match.end() :])


def merged(logs: Mapping[str, Sequence[str]]) -> Iterable[LogLine]:
    """The lines of several containers by time; each container's own lines keep their order."""
    return heapq.merge(*(in_order(source, lines) for source, lines in logs.items()))


def in_order(source: str, lines: Sequence[str]) -> list[LogLine]:
    """The lines of one container by time."""
    parsed: list[LogLine] = []
    for line in lines:
        parsed.append(parse_log_line(source, line, parsed[-1].time if parsed else ""))
    # stdout and stderr come over two pipes, each in order; Python's sort is stable.
    return sorted(parsed, key=lambda line: line.time)
