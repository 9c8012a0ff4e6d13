"""Options of every command that changes a deployment, and the command line as others may see it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.deployment import seconds
from orchestrator.errors import UsageError
from orchestrator.secret import REDACTED, holds_login, is_secret_name

if TYPE_CHECKING:
    from orchestrator.play.request import Request


@dataclass(frozen=True, slots=True)
class ChangeOptions:
    """What to do about the lock of the deployment: one change is made at a time."""

    lock_timeout: Annotated[
        str,
        typer.Option(
            "--lock-timeout",
            metavar="DURATION",
            help="How long to wait for another's lock, such as 10m.",
        ),
    ] = "0s"
    break_lock: Annotated[
        bool, typer.Option("--break-lock", help="Take the lock, whoever holds it.")
    ] = False

    def request(self, playbook: str) -> Request:
        """What is asked of `playbook`. Raises UsageError for a wrong duration."""
        from orchestrator.play.request import Request

        return Request(
            command=shown_command(sys.argv[1:]),
            playbook=playbook,
            lock_timeout=duration("--lock-timeout", self.lock_timeout),
            break_lock=self.break_lock,
        )


def duration(flag: str, text: str) -> float:
    """An option's duration in seconds. Raises UsageError naming the option."""
    try:
        return seconds(text)
    except ValueError as error:
        raise UsageError(f"{flag} {text}: {error}") from None


def shown_command(arguments: Sequence[str]) -> str:
    """The command line without the values that are secret: it stands in locks and histories."""
    import shlex

    return shlex.join(["orc", *map(_shown_word, arguments)])


def _shown_word(word: str) -> str:
    """`--set env.HF_TOKEN=...` in one word or two; a URL with a password in it."""
    key, equals, value = word.removeprefix("--set=").partition("=")
    name = key.rpartition(".")[2].lstrip("-").replace("-", "_")
    if equals and (is_secret_name(name) or holds_login(value)):
        return f"{word[: word.index(key) + len(key)]}={REDACTED}"
    return REDACTED if holds_login(word) else word
