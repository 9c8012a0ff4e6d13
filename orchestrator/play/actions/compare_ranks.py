"""Compare the ranks of the plan with what every worker logged about itself."""

from __future__ import annotations

from orchestrator.errors import OrcError
from orchestrator.health.observation import run_script
from orchestrator.health.rank_lines import RANK_LINE, planned_ranks, rank_differences
from orchestrator.play.action import Action, Arguments
from orchestrator.play.result import HostResult, Report
from orchestrator.play.run import Run
from orchestrator.runtime.containers import parse_log_tails
from orchestrator.runtime.scripts import log_matches_script
from orchestrator.transport.connection import Connection


class CompareArguments(Arguments):
    """Nothing can be set."""


def perform(run: Run, _: CompareArguments, report: Report) -> None:
    """A worker with other ranks than planned is a failure; a log that says nothing of ranks
    (its level may be WARNING) only a warning."""
    plan = run.planned
    nodes = [node for node in plan.nodes if run.in_scope(node.replica)]

    def fetch(connection: Connection) -> dict[str, list[str]]:
        names = [node.name for node in nodes if node.host == connection.host]
        result = run_script(connection, log_matches_script(names, RANK_LINE), timeout=60.0)
        return parse_log_tails(result.stdout)

    answers = run.pool.map(dict.fromkeys(node.host for node in nodes), fetch)
    for node in nodes:
        answer = answers[node.host]
        if isinstance(answer, OrcError):
            report(HostResult(node.host, "unreachable", str(answer), node.replica, node.rank))
            continue
        lines = answer.get(node.name, [])
        if not lines:
            run.say("warning", f"the log of {node.name} says no ranks", host=node.host)
            continue
        differences = rank_differences(node, plan, lines)
        if differences:
            text = f"{node.name}: " + "; ".join(differences)
            report(HostResult(node.host, "failed", text, node.replica, node.rank))
        else:
            shown = "; ".join(map(str, planned_ranks(node, plan)))
            text = f"{node.name} says what was planned: {shown}"
            report(HostResult(node.host, "ok", text, node.replica, node.rank))


ACTION = Action(
    "compare_ranks",
    CompareArguments,
    perform,
    applies=lambda run: run.plan is not None and run.verbose > 0 and not run.check,
)
