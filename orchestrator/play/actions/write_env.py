"""Write an environment as a file of NAME=value lines that only its owner may read."""

from __future__ import annotations

from typing import ClassVar

from orchestrator.play.action import Arguments, HostAction
from orchestrator.play.actions.run import Environment
from orchestrator.play.host_context import HostContext
from orchestrator.play.remote_file import WantedFile, write_file
from orchestrator.play.result import HostResult
from orchestrator.runtime.scripts import environment_file
from orchestrator.secret import Secret


class WriteEnvArguments(Arguments):
    """`path`: the file; `vars`: what it holds, else the environment that the plan gives the host.

    Values may be secret. It has mode 0600, and its content is shown nowhere.
    """

    takes_secrets: ClassVar[frozenset[str]] = frozenset({"vars"})

    path: str
    vars: Environment | None = None


def perform(context: HostContext, arguments: WriteEnvArguments) -> HostResult:
    """A host that the plan has nothing for is skipped."""
    values = arguments.vars
    if values is None:
        run = context.run
        nodes = [node for node in run.planned.nodes if node.host == context.host]
        if not nodes:
            return context.result("skipped", "the plan has nothing for this host")
        values = dict(nodes[0].env)
    context.run.revealed |= {value for value in values.values() if isinstance(value, Secret)}
    content = environment_file(values).encode()
    result = write_file(context, WantedFile(arguments.path, content, "0600", secret=True))
    return context.result(result.status, f"{result.message}: {', '.join(values)}", **result.data)


ACTION = HostAction("write_env", WriteEnvArguments, perform)
