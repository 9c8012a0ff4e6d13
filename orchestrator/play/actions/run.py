"""Run a command on each host."""

from __future__ import annotations

import shlex
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field, WithJsonSchema

from orchestrator.deployment import environment_text
from orchestrator.health.observation import run_script
from orchestrator.play.action import Arguments, HostAction
from orchestrator.play.command_result import command_result
from orchestrator.play.host_context import HostContext
from orchestrator.play.result import HostResult
from orchestrator.runtime.host_scripts import command_script, exists_script
from orchestrator.secret import Secret


def _words(value: object) -> object:
    if isinstance(value, str):
        try:
            return shlex.split(value)
        except ValueError as error:
            raise ValueError(f"cannot be split into words: {error}") from None
    if isinstance(value, list):  # YAML reads `8000` as a number
        return [str(word) if isinstance(word, int | float) else word for word in value]
    return value


def _environment(value: object) -> object:
    if not isinstance(value, dict):
        return value
    return {name: environment_text(text) for name, text in value.items()}


_VALUE = {"type": ["string", "number", "boolean"]}
Words = Annotated[
    list[str],
    BeforeValidator(_words),
    Field(min_length=1),
    WithJsonSchema({"type": ["array", "string", "number"], "items": _VALUE}),
]
Environment = Annotated[
    dict[str, str | Secret],
    BeforeValidator(_environment),
    WithJsonSchema({"type": "object", "additionalProperties": _VALUE}),
]


class RunArguments(Arguments):
    """`command`: a list of words, or a text that is split as a shell would; no shell runs it.

    `chdir`: where; `creates` / `removes`: a path whose presence / absence makes it needless;
    `env`: more variables, which may be secret.
    """

    takes_secrets: ClassVar[frozenset[str]] = frozenset({"env"})

    command: Words
    chdir: str = ""
    creates: str | None = None
    removes: str | None = None
    env: Environment = Field(default_factory=dict)


def perform(context: HostContext, arguments: RunArguments) -> HostResult:
    """A status other than 0 is a failure; what the command said is in the result."""
    reason = needless(context, arguments.chdir, arguments.creates, arguments.removes)
    if reason:
        return command_result(context, None, f"not needed: {reason}")
    if context.run.check:
        return command_result(context, None, f"would run {shlex.join(arguments.command)}")
    context.run.revealed |= {v for v in arguments.env.values() if isinstance(v, Secret)}
    script = command_script(arguments.command, chdir=arguments.chdir, env=arguments.env)
    answer = run_script(context.connection, script, timeout=context.timeout)
    return command_result(context, answer)


def needless(
    context: HostContext, chdir: str, creates: str | None, removes: str | None
) -> str | None:
    """Why a command need not run, if so: what it would make is there, or what it removes is not."""
    for path, wanted, text in ((creates, True, "is there"), (removes, False, "is not there")):
        if path is not None:
            script = exists_script(path, chdir=chdir)
            if run_script(context.connection, script, timeout=context.timeout).ok == wanted:
                return f"{path} {text}"
    return None


ACTION = HostAction("run", RunArguments, perform, free="command")
