"""How an engine behind a prefill/decode router is taken out of use without a lost request.

vllm-router 0.1.17 can take a worker of such a pool out, and never back in. What it does respect
is the worker's own /health. So engines of pools that have more than one of a kind are given an
ASGI middleware (vLLM's own `--middleware`) by which /health answers 503 while a file is there;
all else goes on being served.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orchestrator.secret import Secret

MODULE = "orc_drain"
ARGUMENT = ("--middleware", f"{MODULE}.Drain")
DIRECTORY = "/etc/orc"
MARKER = "/tmp/orc-draining"
# An older file than the process is of the run before: the same container was started again.
SOURCE = f'''"""Answers /health with 503 while {MARKER} is there: orc is rolling."""

import os
import time

STARTED = time.time() - 0.1  # a file's time may be some milliseconds behind the clock


class Drain:
    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        if scope["type"] == "http" and scope["path"] == "/health" and draining():
            await send({{"type": "http.response.start", "status": 503, "headers": []}})
            await send({{"type": "http.response.body", "body": b"draining"}})
        else:
            await self.app(scope, receive, send)


def draining():
    try:
        return os.stat("{MARKER}").st_mtime >= STARTED
    except OSError:
        return False
'''


def drainable(argv: Sequence[str]) -> list[str]:
    """The arguments of an engine that can be drained."""
    return [*argv, *ARGUMENT]


def drain_files() -> dict[str, str]:
    """The files that it needs, by path in the container."""
    return {f"{DIRECTORY}/{MODULE}.py": SOURCE}


def drain_environment(env: Mapping[str, str | Secret]) -> dict[str, str]:
    """Where Python finds them, behind what the user has there."""
    before = env.get("PYTHONPATH")
    return {"PYTHONPATH": f"{before}:{DIRECTORY}" if isinstance(before, str) else DIRECTORY}


def can_be_drained(command: Sequence[str]) -> bool:
    """Whether a container's command has it."""
    return ARGUMENT[1] in command
