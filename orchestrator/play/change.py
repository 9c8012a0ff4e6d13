"""Plays that change a deployment: whatever happens, the change is ended and its lock released."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.errors import ExitStatus
from orchestrator.play.engine import Recap, run_plays
from orchestrator.play.history import end_change
from orchestrator.play.run import Run
from orchestrator.play.tasks import Play


def run_change(plays: Sequence[Play], run: Run) -> Recap:
    """`run_plays`, after which nothing is left of the lock, and the history says how it ended."""
    status = ExitStatus.INVALID
    try:
        recap = run_plays(plays, run)
        status = recap.exit_status
        return recap
    except KeyboardInterrupt:
        status = ExitStatus.INTERRUPTED
        raise
    finally:
        finish(run, status)


def finish(run: Run, status: ExitStatus) -> None:
    """End the change and release the lock, where there are any."""
    try:
        end_change(run, status)
    finally:
        lock, run.lock = run.lock, None
        if lock is not None:
            lock.release()
