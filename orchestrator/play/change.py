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
        raise
    finally:
        finish(run, status)
