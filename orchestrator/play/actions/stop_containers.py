"""Stopping containers on their hosts: used by the actions that start and that stop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from orchestrator.errors import DeploymentError, ErrorGroup, OrcError
from orchestrator.health.observation import run_script
from orchestrator.play.run import Run
from orchestrator.runtime.containers import ContainerState
from orchestrator.runtime.scripts import stop_script
from orchestrator.transport.connection import Connection
from orchestrator.transport.pool import ConnectionPool

# An orphaned follower needs 14 s after SIGTERM (vLLM 0.32); docker's own 10 s would kill it.
STOP_SECONDS = 60


def stop_containers(
    pool: ConnectionPool, states: Iterable[ContainerState], deployment: str, *, remove: bool
) -> dict[str, OrcError | None]:
    """Stop the containers on all hosts in parallel; by host, None or why it did not work.

    Only what carries the deployment's label is touched, which the host checks once more.
    """
    by_host: dict[str, list[str]] = {}
    for state in states:
        by_host.setdefault(state.host, []).append(state.id)
    answers = pool.map(
        by_host, lambda c: _stop(c, by_host[c.host], deployment, remove), forks=len(by_host) or 1
    )
    return dict(answers)


def stop_all(run: Run, states: Iterable[ContainerState], deployment: str) -> None:
    """Stop and remove them. Raises OrcError that names each host on which it does not work."""
    answers = stop_containers(run.pool, states, deployment, remove=True)
    errors = [answer for answer in answers.values() if answer is not None]
    if errors:
        raise ErrorGroup(errors)


def _stop(
    connection: Connection, ids: Sequence[str], deployment: str, remove: bool
) -> OrcError | None:
    script = stop_script(ids, deployment, seconds=STOP_SECONDS, remove=remove)
    # `docker stop` of several containers waits for each in turn in older versions.
    result = run_script(connection, script, timeout=STOP_SECONDS * len(ids) + 60.0)
    if result.ok:
        return None
    said = (result.stderr.strip() or "no reason given").splitlines()[-1]
    return DeploymentError(f"docker could not stop a container: {said}", where=connection.host)
