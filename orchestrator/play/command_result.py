"""What is said and registered of a command that ran on a host."""

from __future__ import annotations

from typing import Any

from orchestrator.play.host_context import HostContext
from orchestrator.play.result import HostResult
from orchestrator.transport.connection import CommandResult

_SHOWN = 200  # characters of the last line
_MOST_KEPT = 1 << 20  # characters of each stream that `register` keeps


def command_result(
    context: HostContext, answer: CommandResult | None, message: str = ""
) -> HostResult:
    """The result of a command; `answer` None: it did not run, which `message` explains."""
    if answer is None:
        data = _data(CommandResult(0, "", ""))
        return context.result("skipped", message, **data)
    data = _data(answer)
    if answer.ok:
        return context.result("changed", _last_line(answer.stdout), **data)
    said = answer.stderr.strip() or answer.stdout.strip() or "nothing"
    shown = "\n".join(line[:_SHOWN] for line in said.splitlines()[-10:])
    text = f"ended with status {answer.exit_status} and said: {shown}"
    return context.result("failed", text, **data)


def _data(answer: CommandResult) -> dict[str, Any]:
    stdout, stderr = (text[:_MOST_KEPT] for text in (answer.stdout, answer.stderr))
    return {
        "rc": answer.exit_status,
        "stdout": stdout.rstrip("\n"),
        "stderr": stderr.rstrip("\n"),
        "stdout_lines": stdout.splitlines(),
        "stderr_lines": stderr.splitlines(),
        "seconds": round(answer.seconds, 3),
    }


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:_SHOWN] if lines else ""
