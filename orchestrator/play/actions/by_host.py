"""A script on every host of some containers, at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from orchestrator.errors import DeploymentError, ErrorGroup, OrcError
from orchestrator.health.observation import run_script
from orchestrator.play.actions.stop_containers import STOP_SECONDS
from orchestrator.play.run import Run
from orchestrator.runtime.scripts import Script
from orchestrator.transport.connection import Connection


def on_each_host(
    run: Run,
    containers: Iterable[tuple[str, str]],
    script: Callable[[Sequence[str]], Script],
    what: str,
) -> None:
    """Run `script(names)` on every host of `containers`, which are pairs of host and name.

    Ranks of a group wait for each other, so all hosts are worked on at once, whatever `--forks`
    says. Raises OrcError that names each host on which it does not work.
    """
    by_host: dict[str, list[str]] = {}
    for host, name in containers:
        by_host.setdefault(host, []).append(name)

    def one(connection: Connection) -> None:
        names = by_host[connection.host]
        result = run_script(connection, script(names), timeout=STOP_SECONDS * len(names) + 60.0)
        if not result.ok:
            said = (result.stderr.strip() or f"status {result.exit_status}").splitlines()[-1]
            text = f"could not {what} {', '.join(names)}: {said}"
            raise DeploymentError(text, where=connection.host)

    answers = run.pool.map(by_host, one, forks=len(by_host) or 1)
    errors = [answer for answer in answers.values() if isinstance(answer, OrcError)]
    if errors:
        raise ErrorGroup(errors)
