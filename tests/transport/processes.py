"""What runs on this machine, by a word of its command line."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from pathlib import Path

_numbers = itertools.count(1)


def marker() -> str:
    """Seconds for `sleep` that no other process sleeps."""
    return f"1{os.getpid():07d}{next(_numbers):03d}"


def processes(command: str) -> list[str]:
    """The command lines that begin with `command`."""
    return [line for line in _command_lines() if line.startswith(command)]


def mentioned(word: str) -> list[str]:
    """The command lines that hold `word` anywhere."""
    return [line for line in _command_lines() if word in line]


def _command_lines() -> list[str]:
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            lines.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return lines


def appears(command: str, seconds: float = 10) -> bool:
    return _until(lambda: bool(processes(command)), seconds)


def gone(command: str, seconds: float = 10) -> bool:
    return _until(lambda: not processes(command), seconds)


def _until(condition: object, seconds: float) -> bool:
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True
