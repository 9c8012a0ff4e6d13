"""Where the picture of a plan goes: an SVG into a file or stdout, a drawing onto the terminal."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path
from typing import TextIO

from orchestrator.cli.plan_drawing import plan_drawing
from orchestrator.cli.plan_svg import plan_svg
from orchestrator.errors import InputError
from orchestrator.events.console import use_colour
from orchestrator.planning.plan import Plan


def drawing_for(plan: Plan, stream: TextIO) -> str:
    """The drawing as `stream` can show it: its width (80 columns into a pipe), colour, letters."""
    width = shutil.get_terminal_size((80, 24)).columns
    return plan_drawing(
        plan, width, colour=use_colour(stream), ascii_only=not _can_show(stream, "┌─▶…·")
    )


def _can_show(stream: TextIO, characters: str) -> bool:
    try:
        characters.encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def write_svg(plan: Plan, path: Path) -> None:
    """Write the picture to `path`, whole or not at all and readable by all; `-` is stdout.

    Raises InputError when something other than a regular file is there, or it cannot be written.
    """
    content = plan_svg(plan).encode()
    if path == Path("-"):
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    try:
        _replace(path, content)
    except OSError as error:
        raise InputError(
            "the picture cannot be written",
            where=str(path),
            why=error.strerror or str(error),
            hint="give --svg a file in a directory that is there and may be written to",
        ) from error
    sys.stderr.write(f"picture: {path}\n")


def _replace(path: Path, content: bytes) -> None:
    if os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
        raise InputError(
            "there is something here that is not a regular file, and it is left alone",
            where=str(path),
            hint="give --svg another name, or - for stdout",
        )
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".orc-", suffix=".svg")
    new = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), 0o644)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
