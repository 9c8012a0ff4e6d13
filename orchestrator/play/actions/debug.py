"""Say something of each host."""

from __future__ import annotations

import json
from typing import Any

from pydantic import field_validator

from orchestrator.play.action import Arguments, HostAction
from orchestrator.play.host_context import HostContext
from orchestrator.play.result import HostResult
from orchestrator.secret import Secret


class DebugArguments(Arguments):
    """`msg`: a text, or any value."""

    msg: Any

    @field_validator("msg")
    @classmethod
    def _no_secret(cls, msg: Any) -> Any:
        if _holds_secret(msg):
            raise ValueError("a secret cannot be shown")
        return msg


def perform(context: HostContext, arguments: DebugArguments) -> HostResult:
    """Changes nothing."""
    msg = arguments.msg
    return context.result("ok", msg if isinstance(msg, str) else json.dumps(msg, default=str))


def _holds_secret(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(_holds_secret, value.values() if isinstance(value, dict) else value))
    return isinstance(value, Secret)


ACTION = HostAction("debug", DebugArguments, perform, free="msg")
