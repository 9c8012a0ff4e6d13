"""Fill in a template of this machine with each host's variables, and put it there."""

from __future__ import annotations

from orchestrator.documents import read_text
from orchestrator.play.action import Arguments, HostAction
from orchestrator.play.actions.copy import destination
from orchestrator.play.host_context import HostContext
from orchestrator.play.remote_file import Mode, WantedFile, write_file
from orchestrator.play.result import HostResult
from orchestrator.secret import Secret


class TemplateArguments(Arguments):
    """`src`: a Jinja2 template beside the playbook; `dest`, `mode` and `backup` as of `copy`.

    A file that a secret goes into is shown in no difference, and has mode 0600 unless one is given.
    """

    src: str
    dest: str
    mode: Mode | None = None
    backup: bool = False


def perform(context: HostContext, arguments: TemplateArguments) -> HostResult:
    """Raises InputError for a template that cannot be filled in."""
    text = read_text(context.local_path(arguments.src))
    filled = context.variables.fill_file(text)
    secret = isinstance(filled, Secret)
    content = filled.reveal() if isinstance(filled, Secret) else filled
    path = destination(arguments.dest, arguments.src.removesuffix(".j2"))
    return write_file(
        context,
        WantedFile(path, content.encode(), arguments.mode, arguments.backup, secret=secret),
    )


ACTION = HostAction("template", TemplateArguments, perform)
