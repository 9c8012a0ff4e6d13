"""Which rank of a failed group showed the first cause, and what it is. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.health.diagnosis import Diagnosis, diagnose
from orchestrator.health.judge import RankKey, RankProblem
from orchestrator.runtime.log_lines import LogLine


@dataclass(frozen=True, slots=True)
class RankLog:
    """What a rank said last, in order. `problem` is None for one that just runs: a worker that
    raised an error does, while its head ends."""

    rank: RankKey
    lines: tuple[LogLine, ...]
    problem: RankProblem | None = None


@dataclass(frozen=True, slots=True)
class FirstCause:
    """The rank that showed it, when by its host's clock (ISO 8601, "" if unknown), and what."""

    log: RankLog
    time: str
    diagnosis: Diagnosis


def first_cause(logs: Sequence[RankLog]) -> FirstCause | None:
    """`logs`: those that ended, by the time of death, then the others.

    The first certain cause; without one, of those that another rank's end may have brought about,
    the one that was logged first.
    """
    found = [cause for cause in map(_cause, logs) if cause]
    certain = (cause for cause in found if cause.diagnosis.certain)
    return next(certain, None) or min(found, key=lambda cause: cause.time, default=None)


def _cause(log: RankLog) -> FirstCause | None:
    state = log.problem.state if log.problem else None
    lines = log.lines
    if state and state.error:  # docker's, of a container that never ran
        lines = (LogLine("", log.rank.name, state.error), *lines)
    found = diagnose(
        [line.text for line in lines],
        ended=log.problem is not None,
        exit_code=state.exit_code if state else None,
        oom_killed=bool(state and state.oom_killed),
    )
    if found is None:
        return None
    time = lines[found.position].time if found.position is not None else ""
    return FirstCause(log, time, found)
