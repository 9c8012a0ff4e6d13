"""The errors that reach a user, and the exit status that each of them means.

Every error says what is wrong, where, why, and what to do; `str()` of it is the whole
message. Anything else that escapes is a bug of ours and is shown as an internal error.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from enum import IntEnum


class ExitStatus(IntEnum):
    """Exit statuses of `orc` (a stable contract)."""

    OK = 0
    INVALID = 1  # an invalid input, or an internal error
    FAILED = 2  # a host or the deployment failed
    USAGE = 3  # wrong usage of the command line
    UNREACHABLE = 4  # hosts could not be reached
    INTERRUPTED = 130


class OrcError(Exception):
    """What went wrong, where (file:line or host), why, and what to do about it."""

    exit_status: ExitStatus = ExitStatus.INVALID

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        why: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.what = what
        self.where = where
        self.why = why
        self.hint = hint
        self.host: str | None = None  # of the inventory, where it is what a host came to
        super().__init__(what)

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}" if self.where else self.reason

    @property
    def reason(self) -> str:
        """The message without its place: for what names the host itself."""
        lines = [self.what]
        if self.why:
            lines.append(f"  why: {self.why}")
        if self.hint:
            lines.append(f"  do:  {self.hint}")
        return "\n".join(lines)

    @property
    def one_line(self) -> str:
        """The reason where there is room for one line."""
        more = f" ({self.hint})" if self.hint else ""
        return " ".join(f"{self.what}{f': {self.why}' if self.why else ''}{more}".split())


class InputError(OrcError):
    """A file, a flag's value or a selection that cannot be used. Nothing was started."""


class PlanError(InputError):
    """The selection cannot run on these hosts; the message holds the equation."""


class UsageError(OrcError):
    """The command line itself is wrong."""

    exit_status = ExitStatus.USAGE


class DeploymentError(OrcError):
    """A host or the deployment failed after work on hosts had begun."""

    exit_status = ExitStatus.FAILED


class UnreachableError(OrcError):
    """A host could not be reached or logged in to; its state is unknown."""

    exit_status = ExitStatus.UNREACHABLE


class ErrorGroup(OrcError):
    """Several errors of the same moment, all of which the user should see at once."""

    def __init__(self, errors: Iterable[OrcError]) -> None:
        self.errors = tuple(errors)
        self.exit_status = max(error.exit_status for error in self.errors)
        super().__init__("\n".join(str(error) for error in self.errors))

    def __str__(self) -> str:
        return self.what


def each_cause_once(reasons: Mapping[str, str]) -> dict[str, str]:
    """The reasons of hosts, for a person: of those that say the same, the first one says all of
    it (why, what to do), the others their first line."""
    told: set[str] = set()
    shown = {}
    for host, reason in reasons.items():
        shown[host] = reason.partition("\n")[0] if reason in told else reason
        told.add(reason)
    return shown


def worst(errors: Iterable[OrcError]) -> ExitStatus:
    """What hosts that could not be asked mean: one that failed weighs more than one that was not
    reached."""
    kinds = [isinstance(error, UnreachableError) for error in errors]
    if not kinds:
        return ExitStatus.OK
    return ExitStatus.UNREACHABLE if all(kinds) else ExitStatus.FAILED


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like `name`, or None when none comes near."""
    matches = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint for an unknown name: the nearest known one, else the list of what there is."""
    names = sorted(known)
    near = nearest(name, names)
    if near:
        return f"did you mean {near!r}?"
    if not names:
        return "there are none"
    shown = ", ".join(names[:20])
    return f"known: {shown}" + (f" and {len(names) - 20} more" if len(names) > 20 else "")


def name_hint(name: str, known: Iterable[str]) -> str:
    """As `did_you_mean`, and where one name is near, the others too."""
    names = list(known)
    hint = did_you_mean(name, names)
    return f"{hint} (there are: {', '.join(names)})" if nearest(name, names) else hint
