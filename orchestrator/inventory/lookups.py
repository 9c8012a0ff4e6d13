"""`lookup('env' | 'file' | 'pipe', ...)`: values that come from the control machine."""

from __future__ import annotations

import os
import re
import stat
import threading
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.documents import expand_user
from orchestrator.errors import InputError, did_you_mean
from orchestrator.inventory.pipe import MOST_BYTES, run_bounded

_NAMES = ("env", "file", "pipe")


class MissingValue(Exception):
    """A lookup that found nothing; a template may still give a default."""


@dataclass(slots=True)
class Lookups:
    """Runs lookups, each only once for all hosts: a password store is asked a single time."""

    _found: dict[tuple[str, str, Path], str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def find(self, kind: str, term: str, directory: Path) -> str:
        """What the lookup `kind` finds for `term`; relative paths start at `directory`.

        Raises MissingValue for an environment variable that is unset or empty, InputError for
        a file that cannot be read, a command that fails, and a lookup that does not exist.
        """
        name = kind.removeprefix("ansible.builtin.")
        if name == "env":
            return _environment_variable(term)
        if name not in _NAMES:
            raise InputError(f"there is no lookup {kind!r} here", hint=did_you_mean(name, _NAMES))
        key = (name, term, directory)
        with self._lock:
            if key not in self._found:
                look = _file if name == "file" else _pipe
                self._found[key] = look(term, directory)
            return self._found[key]


def _environment_variable(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        state = "is not set" if value is None else "is empty"
        raise MissingValue(f"the environment variable {name} {state}")
    return value


def _file(name: str, directory: Path) -> str:
    path = directory / expand_user(name)
    try:
        kind = path.stat().st_mode
        # A pipe is let through for `<(command)`; a device may never end, or act when it is opened.
        if stat.S_ISCHR(kind) or stat.S_ISBLK(kind):
            raise InputError(f"lookup('file'): {path} is a device, not a file")
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise InputError(f"lookup('file'): {path} is bigger than {MOST_BYTES >> 20} MiB")
        return _text(data)
    except FileNotFoundError:
        raise InputError(f"lookup('file'): there is no {path}") from None
    except OSError as error:
        raise InputError(f"lookup('file'): {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"lookup('file'): {path} is not text in UTF-8") from None


def _text(data: bytes) -> str:
    return data.decode().replace("\r\n", "\n").rstrip()


def _pipe(command: str, directory: Path) -> str:
    program = _program(command)
    try:
        status, out, errors = run_bounded(command, directory, program)
        if status == 0:
            return _text(out)
    except UnicodeDecodeError:
        raise InputError(f"lookup('pipe'): no text in UTF-8 came from {program}") from None
    said = errors.decode(errors="replace").strip().splitlines()
    raise InputError(
        f"lookup('pipe'): exit status {status} from {program}",
        why=_without_words(said[-1], command) if said else None,
    )


def _program(command: str) -> str:
    """The program alone: an argument, or a variable set before it, may be a secret."""
    words = (word for word in command.split() if "=" not in word)
    return next(words, "the command")


def _without_words(text: str, command: str) -> str:
    """What the command said, without what it repeats of its own arguments."""
    own = {word for word in re.split(r"[\s'\"=:@]+", command) if len(word) >= 4}
    for word in sorted(own - {_program(command)}, key=len, reverse=True):
        text = text.replace(word, "...")
    return text
