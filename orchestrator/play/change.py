"""Plays that change a deployment: whatever happens, the change is ended and its lock released."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.errors import ExitStatus
from orchestrator.play.choice import Choice
from orchestrator.play.engine import Recap, run_plays
from orchestrator.play.finish import finish
from orchestrator.play.run import Run
from orchestrator.play.tasks import Play


def run_change(plays: Sequence[Play], run: Run, choice: Choice | None = None) -> Recap:
    """`run_plays`, after which nothing is left of the lock, and the history says how it ended."""
    status = ExitStatus.INVALID
    try:
        recap = run_plays(plays, run, choice)
        status = recap.exit_status
        return recap
    except KeyboardInterrupt:
        status = ExitStatus.INTERRUPTED
        if run.rolling is not None and not run.check:
            _say_interrupted(run)
        raise
    finally:
        finish(run, status)


def _say_interrupted(run: Run) -> None:
    again = "again" if "rollback" in run.request.playbook else "with --resume"
    run.say(
        "warning",
        "the roll was interrupted; a replica may be stopped, or out of the router.\n"
        f"see it: orc status {run.name}\n"
        f"go on:  the same command {again}",
    )
