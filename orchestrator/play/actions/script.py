"""Run a script of this machine on each host; it goes over stdin, and is put into no file."""

from __future__ import annotations

import shlex
from typing import ClassVar

from pydantic import Field, field_validator

from orchestrator.documents import read_text
from orchestrator.health.observation import run_script
from orchestrator.play.action import Arguments, HostAction
from orchestrator.play.actions.run import Environment, Words, needless
from orchestrator.play.command_result import command_result
from orchestrator.play.host_context import HostContext
from orchestrator.play.result import HostResult
from orchestrator.runtime.host_scripts import command_script
from orchestrator.secret import Secret

_SHELLS = ("sh", "bash", "dash", "ash", "ksh", "zsh")


class ScriptArguments(Arguments):
    """`src`: the script, beside the playbook; `args`: its arguments; `interpreter`: what reads it
    from stdin, else what its first line (`#!`) says, else `sh`.

    `chdir`, `creates`, `removes` and `env` as of `run`.
    """

    takes_secrets: ClassVar[frozenset[str]] = frozenset({"env"})

    src: str
    args: Words | None = None
    interpreter: Words | None = None
    chdir: str = ""
    creates: str | None = None
    removes: str | None = None
    env: Environment = Field(default_factory=dict)

    @field_validator("args", mode="before")
    @classmethod
    def _none_is_none(cls, args: object) -> object:
        return args or None


def perform(context: HostContext, arguments: ScriptArguments) -> HostResult:
    """Raises InputError when the script cannot be read."""
    text = read_text(context.local_path(arguments.src))
    reason = needless(context, arguments.chdir, arguments.creates, arguments.removes)
    if reason:
        return command_result(context, None, f"not needed: {reason}")
    words = [*interpreter(text, arguments.interpreter), *(arguments.args or [])]
    if context.run.check:
        shown = shlex.join([arguments.src, *(arguments.args or [])])
        return command_result(context, None, f"would run {shown}")
    context.run.revealed |= {v for v in arguments.env.values() if isinstance(v, Secret)}
    script = command_script(words, chdir=arguments.chdir, env=arguments.env, stdin=text)
    return command_result(context, run_script(context.connection, script, timeout=context.timeout))


def interpreter(text: str, given: list[str] | None) -> list[str]:
    """The command that reads the script `text` from its stdin, to which arguments are added."""
    first = text.splitlines()[0] if text else ""
    words = given or (shlex.split(first[2:]) if first.startswith("#!") else []) or ["sh"]
    shell = words[-1].rsplit("/", 1)[-1] in _SHELLS or words[0].rsplit("/", 1)[-1] in _SHELLS
    return [*words, *(["-s", "--"] if shell else ["-"])]


ACTION = HostAction("script", ScriptArguments, perform, free="src")
