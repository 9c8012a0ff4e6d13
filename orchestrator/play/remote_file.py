"""Bring a file on a host to a content and a mode, if it is not so already."""

from __future__ import annotations

import base64
import difflib
import hashlib
import re
import time
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator

from orchestrator.errors import DeploymentError
from orchestrator.health.observation import run_script
from orchestrator.play.host_context import HostContext
from orchestrator.play.result import HostResult
from orchestrator.runtime.host_scripts import look_script, write_script

_MOST_SHOWN = 200  # lines of a difference


def _mode(mode: Any) -> str:
    if not re.fullmatch("0?[0-7]{3,4}", mode):
        raise ValueError(f"a mode is octal and in quotes, such as '0644', not {mode!r}")
    return str(mode)


Mode = Annotated[str, AfterValidator(_mode)]


@dataclass(frozen=True, slots=True)
class WantedFile:
    """`secret`: its content is shown in no difference, and nobody else may read it."""

    path: str
    content: bytes
    mode: str | None = None  # None: as it is, else 0644; of a secret one 0600
    backup: bool = False
    secret: bool = False


def write_file(context: HostContext, wanted: WantedFile) -> HostResult:
    """The content decides whether anything is changed. With --check nothing is.

    Raises DeploymentError when it cannot be written; what was there is then as it was.
    """
    show = context.run.diff and not wanted.secret
    kind, mode, digest, old = _look(context, wanted.path, content=show)
    new_mode = (wanted.mode or ("600" if wanted.secret else mode or "644")).lstrip("0")
    same = digest == hashlib.sha256(wanted.content).hexdigest()
    data = {"path": wanted.path, "mode": new_mode}
    if same and mode == new_mode:
        return context.result("ok", f"{wanted.path} is as it should be", **data)
    what = "mode" if same else ("content" if kind == "file" else "new")
    text = f"{'would write' if context.run.check else 'wrote'} {wanted.path} ({what})"
    if show and not same:
        shown = difference(old, wanted.content, wanted.path)
        text, data = f"{text}\n{shown}", {**data, "diff": shown}
    if context.run.check:
        return context.result("changed", text, **data)
    backup = ""
    if wanted.backup and kind == "file" and not same:
        backup = f"{wanted.path}.{time.strftime('%Y-%m-%d-%H%M%S')}~"
        data["backup_file"] = backup
    script = write_script(wanted.path, wanted.content, mode=new_mode, backup=backup)
    answer = run_script(context.connection, script, timeout=context.timeout)
    if not answer.ok:
        said = (answer.stderr.strip() or f"status {answer.exit_status}").splitlines()[-1]
        raise DeploymentError(f"{wanted.path} cannot be written: {said}", where=context.host)
    return context.result("changed", text, **data)


def _look(context: HostContext, path: str, *, content: bool) -> tuple[str, str | None, str, bytes]:
    """(what it is, mode, SHA-256, content). Raises DeploymentError where no file can be."""
    script = look_script(path, content=content)
    answer = run_script(context.connection, script, timeout=context.timeout)
    first, _, rest = answer.stdout.partition("\n")
    kind, *more = first.split() or ["unreadable"]
    if kind == "absent":
        return kind, None, "", b""
    if answer.ok and kind == "file":
        return kind, more[0], more[1], base64.b64decode(rest)
    hint = None
    if kind == "directory":
        hint = "end `dest` with a slash to put the file into it"
    elif kind == "nowhere":
        hint = "make its directory first: run: [mkdir, -p, DIRECTORY]"
    said = {
        "directory": "is a directory",
        "nowhere": "is in no directory that is there",
    }.get(kind, f"cannot be read: {answer.stderr.strip()}")
    raise DeploymentError(f"{path} {said}", where=context.host, hint=hint)


def difference(old: bytes, new: bytes, path: str) -> str:
    """A unified diff, or a word about what is no text."""
    try:
        before, after = old.decode().splitlines(), new.decode().splitlines()
    except UnicodeDecodeError:
        return f"(no text: {len(old)} bytes become {len(new)})"
    names = f"{path} (is)", f"{path} (will be)"
    lines = list(difflib.unified_diff(before, after, *names, lineterm=""))
    more = len(lines) - _MOST_SHOWN
    return "\n".join([*lines[:_MOST_SHOWN], *([f"({more} more lines)"] if more > 0 else [])])
