"""Fail each host, for a reason that the playbook knows."""

from __future__ import annotations

from orchestrator.play.action import Arguments, HostAction
from orchestrator.play.host_context import HostContext
from orchestrator.play.result import HostResult


class FailArguments(Arguments):
    """`msg`: why."""

    msg: str = "the playbook says so"


def perform(context: HostContext, arguments: FailArguments) -> HostResult:
    """Give it a `when:`."""
    return context.result("failed", arguments.msg)


ACTION = HostAction("fail", FailArguments, perform, free="msg")
