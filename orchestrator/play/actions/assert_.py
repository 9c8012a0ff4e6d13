"""Fail each host on which a condition does not hold."""

from __future__ import annotations

from orchestrator.play.action import Arguments, HostAction
from orchestrator.play.host_context import HostContext
from orchestrator.play.result import HostResult
from orchestrator.play.schema import Conditions


class AssertArguments(Arguments):
    """`that`: bare expressions, as of `when`; `fail_msg`, `success_msg`: what is said."""

    that: Conditions
    fail_msg: str | None = None
    success_msg: str = ""


def perform(context: HostContext, arguments: AssertArguments) -> HostResult:
    """The first condition that does not hold is named."""
    for condition in arguments.that:
        if not context.variables.test([condition], "assert"):
            text = arguments.fail_msg or "does not hold"
            return context.result("failed", f"{text} ({condition})", assertion=str(condition))
    return context.result("ok", arguments.success_msg)


ACTION = HostAction("assert", AssertArguments, perform, free="that")
