"""Explain a failed replica: the last lines of every failed rank, and the first cause of all."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.errors import OrcError
from orchestrator.health.diagnosis import Diagnosis
from orchestrator.health.first_cause import RankLog, first_cause
from orchestrator.health.judge import RankKey, RankProblem, Verdict
from orchestrator.health.observation import run_script
from orchestrator.health.watch import Group
from orchestrator.planning.service import group_name
from orchestrator.runtime.containers import parse_log_tails
from orchestrator.runtime.log_lines import LogLine, in_order
from orchestrator.runtime.scripts import log_tails_script
from orchestrator.secret import Secret, redact
from orchestrator.transport.connection import Connection
from orchestrator.transport.pool import ConnectionPool

SHOWN_LINES = 40
_READ_LINES = 400  # a cause may stand well above the last traceback
_PATIENCE = 20.0  # seconds for the logs of a host
_LITTLE_PATIENCE = 2.0  # and for those of hosts on which all runs, when the others have answered
# What Python's extensions say of themselves at every exit of vLLM 0.32: some 40 lines.
_AT_EXIT = re.compile(
    r"nanobind: | - (leaked (instance|type|function) |\.\.\. skipped remainder)|See https://nanobind"
)


@dataclass(frozen=True, slots=True)
class RankReport:
    """A rank's reason and the last lines of its log."""

    rank: RankKey
    reason: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FailureReport:
    """Why a replica failed. Ranks by the time of death, the earliest first; at the end the one
    that showed the first cause, if it runs (`guilty`)."""

    replica: int
    summary: str
    ranks: tuple[RankReport, ...]
    diagnosis: Diagnosis | None = None
    guilty: RankKey | None = None

    @property
    def cause(self) -> str | None:
        """In a line; it names the rank unless that is the one which ended first."""
        if self.diagnosis is None:
            return None
        if self.guilty is None or self.guilty == self.ranks[0].rank:
            return str(self.diagnosis)
        return f"rank {self.guilty.rank} on {self.guilty.host}: {self.diagnosis}"

    def text(self) -> str:
        lines = [f"{group_name(self.replica)} failed: {self.summary}"]
        if self.cause:
            lines.append(f"  cause: {self.cause}")
        for rank in self.ranks:
            lines.append(f"  rank {rank.rank.rank} on {rank.rank.host}: {rank.reason}")
            lines += [f"    | {line}" for line in rank.lines]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        return {
            "replica": self.replica,
            "summary": self.summary,
            "cause": self.cause,
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
    pool: ConnectionPool,
    group: Group,
    verdict: Verdict,
    secrets: Sequence[Secret] = (),
) -> FailureReport:
    """Fetch the logs of all ranks, and explain; one round trip to each host.

    Shown are those of the ranks that failed (of all, where it is the endpoint that failed), and of
    the one that showed the first cause.
    """
    problems = verdict.problems or tuple(
        RankProblem(rank, "runs, but the replica is not healthy") for rank in group.ranks
    )
    ended = [problem.rank for problem in problems]
    others = [
        rank for rank in group.ranks if rank not in ended and rank.host not in verdict.unreachable
    ]
    said, unread = _logs(pool, ended, others, secrets)
    failed = [RankLog(problem.rank, said.get(problem.rank, ()), problem) for problem in problems]
    cause = first_cause([*failed, *(RankLog(rank, said.get(rank, ())) for rank in others)])
    reports = [_report(log, unread.get(log.rank)) for log in failed]
    if cause and cause.log.problem is None:
        reports.append(_report(cause.log))
    return FailureReport(
        replica=group.replica,
        summary=redact(verdict.detail, list(secrets)),
        ranks=tuple(reports),
        diagnosis=cause.diagnosis if cause else None,
        guilty=cause.log.rank if cause else None,
    )


def _report(log: RankLog, unread: str | None = None) -> RankReport:
    reason = log.problem.reason if log.problem else "runs, and showed the first error"
    lines = [line.text for line in log.lines if not _AT_EXIT.match(line.text)]
    if unread:
        lines = [f"(its log cannot be read: {unread})"]
    return RankReport(log.rank, reason, tuple(lines[-SHOWN_LINES:]))


def _logs(
    pool: ConnectionPool,
    ended: Sequence[RankKey],
    others: Sequence[RankKey],
    secrets: Sequence[Secret],
) -> tuple[dict[RankKey, tuple[LogLine, ...]], dict[RankKey, str]]:
    """By rank what it said last, or why that cannot be read.

    Those that ended are waited for. A host of others alone may just have dropped off, which is
    found out in half a minute: what it has not said within seconds is left out.
    """
    ranks = [*ended, *others]
    hosts = list(dict.fromkeys(rank.host for rank in ended))
    rest = list(dict.fromkeys(rank.host for rank in others if rank.host not in hosts))
    answers: dict[str, dict[str, list[str]]] = {}

    def fetch(connection: Connection) -> dict[str, list[str]]:
        names = [rank.name for rank in ranks if rank.host == connection.host]
        result = run_script(connection, log_tails_script(names, _READ_LINES), timeout=_PATIENCE)
        answers[connection.host] = parse_log_tails(redact(result.stdout, list(secrets)))
        return answers[connection.host]

    def fetch_rest() -> None:
        with contextlib.suppress(KeyboardInterrupt):  # the main thread has it as well
            pool.map(rest, fetch)

    aside = threading.Thread(target=fetch_rest, daemon=True)
    aside.start()
    failed = {
        host: answer
        for host, answer in pool.map(hosts, fetch).items()
        if isinstance(answer, OrcError)
    }
    aside.join(_LITTLE_PATIENCE)
    said = dict(answers)
    logs = {
        rank: tuple(in_order(rank.name, said[rank.host].get(rank.name, ())))
        for rank in ranks
        if rank.host in said
    }
    return logs, {rank: failed[rank.host].what for rank in ranks if rank.host in failed}
