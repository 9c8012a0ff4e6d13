"""Wait for some seconds, or until somebody at the terminal goes on: once for the whole batch."""

from __future__ import annotations

import sys
import time

from orchestrator.deployment import Seconds
from orchestrator.errors import DeploymentError
from orchestrator.play.action import Action, Arguments
from orchestrator.play.result import HostResult, Report
from orchestrator.play.run import Run


class PauseArguments(Arguments):
    """`seconds`: how long (5, or 2m); `prompt`: what is said. A prompt alone waits for Enter."""

    seconds: Seconds | None = None
    prompt: str | None = None


def perform(run: Run, arguments: PauseArguments, report: Report) -> None:
    """Raises DeploymentError where nobody can press Enter: to go on unasked would be no pause."""
    seconds = arguments.seconds
    host = next(iter(run.inventory.hosts), "localhost")
    if run.check:
        report(HostResult(host, "ok", "would wait"))
    elif seconds is not None:
        if seconds:
            text = arguments.prompt or "waiting"
            run.say("progress", f"{text} ({seconds:g} s)")
        time.sleep(seconds)
        report(HostResult(host, "ok"))
    else:
        _ask(arguments.prompt or "Press Enter to go on, Ctrl-C to stop")
        report(HostResult(host, "ok", "went on"))


def _ask(prompt: str) -> None:
    if not sys.stdin.isatty():
        raise DeploymentError(
            f"nobody is there to be asked: {prompt}",
            why="a pause without `seconds` waits for Enter on a terminal",
            hint="give it `seconds`, or leave it out with --skip-tags",
        )
    sys.stderr.write(f"{prompt}: ")
    sys.stderr.flush()
    sys.stdin.readline()


ACTION = Action("pause", PauseArguments, perform, level="batch", free="seconds")
