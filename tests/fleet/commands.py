"""Running programs: one way to run one, and one error that shows what it said."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


class FleetError(Exception):
    """The fleet, or a part of it, cannot be made or used; the text says why and what to do."""


def run(
    command: Sequence[str | Path],
    *,
    check: bool = True,
    stdin: str | None = None,
    timeout: float | None = 120,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end and capture its output; raises FleetError with it on failure."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words, input=stdin, text=True, capture_output=True, timeout=timeout, env=env
        )
    except FileNotFoundError:
        raise FleetError(
            f"{words[0]} is not installed; `python -m tests.fleet env` does it"
        ) from None
    except subprocess.TimeoutExpired:
        raise FleetError(f"no end after {timeout:.0f} s: {shlex.join(words)}") from None
    if check and done.returncode != 0:
        raise FleetError(
            f"exit {done.returncode}: {shlex.join(words)}\n{done.stdout}{done.stderr}".rstrip()
        )
    return done
