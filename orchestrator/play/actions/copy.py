"""Copy a file of this machine, or a text of the playbook, to each host."""

from __future__ import annotations

from pydantic import model_validator

from orchestrator.documents import read_bytes
from orchestrator.play.action import Arguments, HostAction
from orchestrator.play.host_context import HostContext
from orchestrator.play.remote_file import Mode, WantedFile, write_file
from orchestrator.play.result import HostResult


class CopyArguments(Arguments):
    """`src`: a file beside the playbook, or `content`: a text; `dest`: where to, a directory when
    it ends with a slash; `mode`: octal, such as '0644'; `backup`: keep what was there."""

    src: str | None = None
    content: str | None = None
    dest: str
    mode: Mode | None = None
    backup: bool = False

    @model_validator(mode="after")
    def _one_source(self) -> CopyArguments:
        if (self.src is None) == (self.content is None):
            raise ValueError("give one of src and content")
        if self.content is not None and self.dest.endswith("/"):
            raise ValueError("dest is a file where the content is given")
        return self


def perform(context: HostContext, arguments: CopyArguments) -> HostResult:
    """Written to a temporary file beside it, which takes its place in one step."""
    if arguments.src is None:
        content = (arguments.content or "").encode()
    else:
        content = read_bytes(context.local_path(arguments.src))
    path = destination(arguments.dest, arguments.src)
    return write_file(context, WantedFile(path, content, arguments.mode, arguments.backup))


def destination(dest: str, src: str | None) -> str:
    """`dest`, with the file's own name where it is a directory."""
    return dest + (src or "").rsplit("/", 1)[-1] if dest.endswith("/") else dest


ACTION = HostAction("copy", CopyArguments, perform)
