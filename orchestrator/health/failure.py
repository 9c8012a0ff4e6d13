"""Explain a failed replica: the last lines of every failed rank, and the first cause of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.errors import OrcError
from orchestrator.health.diagnosis import Diagnosis, diagnose
from orchestrator.health.judge import RankKey, RankProblem, Verdict
from orchestrator.health.observation import run_script
from orchestrator.health.watch import Connect, Group
from orchestrator.planning.service import group_name
from orchestrator.runtime.containers import parse_log_tails
from orchestrator.runtime.scripts import log_tails_script
from orchestrator.secret import Secret, redact

SHOWN_LINES = 40
_READ_LINES = 400  # a cause may stand well above the last traceback


@dataclass(frozen=True, slots=True)
class RankReport:
    """A rank's reason and the last lines of its log."""

    rank: RankKey
    reason: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FailureReport:
    """Why a replica failed. Ranks by the time of death, the earliest first."""

    replica: int
    summary: str
    ranks: tuple[RankReport, ...]
    diagnosis: Diagnosis | None = None

    def text(self) -> str:
        lines = [f"{group_name(self.replica)} failed: {self.summary}"]
        if self.diagnosis:
            lines.append(f"  cause: {self.diagnosis}")
        for rank in self.ranks:
            lines.append(f"  rank {rank.rank.rank} on {rank.rank.host}: {rank.reason}")
            lines += [f"    | {line}" for line in rank.lines]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        return {
            "replica": self.replica,
            "summary": self.summary,
            "cause": str(self.diagnosis) if self.diagnosis else None,
            "ranks": [
                {
                    "rank": rank.rank.rank,
                    "host": rank.rank.host,
                    "reason": rank.reason,
                    "lines": list(rank.lines),
                }
                for rank in self.ranks
            ],
        }


def explain_failure(
    connect: Connect,
    group: Group,
    verdict: Verdict,
    secrets: Sequence[Secret] = (),
) -> FailureReport:
    """Fetch the logs of the ranks that failed (of all, where it is the endpoint that failed)."""
    problems = verdict.problems or tuple(
        RankProblem(rank, "runs, but the replica is not healthy") for rank in group.ranks
    )
    logs = _logs(connect, [problem.rank for problem in problems], secrets)
    reports = tuple(
        RankReport(p.rank, p.reason, tuple(logs.get(p.rank.name, ())[-SHOWN_LINES:]))
        for p in problems
    )
    return FailureReport(
        replica=group.replica,
        summary=redact(verdict.detail, list(secrets)),
        ranks=reports,
        diagnosis=first_cause(problems, logs),
    )


def first_cause(
    problems: Sequence[RankProblem], logs: Mapping[str, Sequence[str]]
) -> Diagnosis | None:
    """The cause that the rank which ended first shows; else that of the next."""
    for problem in problems:
        state = problem.state
        found = diagnose(
            [state.error if state else "", *logs.get(problem.rank.name, ())],
            exit_code=state.exit_code if state else None,
            oom_killed=bool(state and state.oom_killed),
        )
        if found:
            return found
    return None


def _logs(
    connect: Connect,
    ranks: Sequence[RankKey],
    secrets: Sequence[Secret],
) -> dict[str, list[str]]:
    logs: dict[str, list[str]] = {}
    for name in dict.fromkeys(rank.host for rank in ranks):
        containers = [rank.name for rank in ranks if rank.host == name]
        try:
            result = run_script(
                connect(name), log_tails_script(containers, _READ_LINES), timeout=20.0
            )
        except OrcError as error:
            unread = f"(its log cannot be read: {error.what})"
            logs |= {container: [unread] for container in containers}
            continue
        logs |= parse_log_tails(redact(result.stdout, list(secrets)))
    return logs
