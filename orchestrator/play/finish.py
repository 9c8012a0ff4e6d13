"""The end of a change of one deployment."""

from __future__ import annotations

from orchestrator.errors import ExitStatus
from orchestrator.play.record_change import end_change
from orchestrator.play.run import Run


def finish(run: Run, status: ExitStatus) -> None:
    """End the change and release the lock, where there are any."""
    try:
        end_change(run, status)
    finally:
        lock, run.lock = run.lock, None
        if lock is not None:
            lock.release()
