"""Fetch what the containers of a deployment were really started with, all hosts in parallel."""

from __future__ import annotations

import secrets
from collections.abc import Iterable

from orchestrator.errors import DeploymentError, OrcError
from orchestrator.health.observation import LOOK_TIMEOUT, run_script
from orchestrator.planning.drift import Details, open_variables
from orchestrator.planning.plan import Plan
from orchestrator.runtime.container_details import HostDetails, details_script, parse_details
from orchestrator.transport.connection import Connection
from orchestrator.transport.pool import ConnectionPool


def fetch_details(
    pool: ConnectionPool, hosts: Iterable[str], plan: Plan
) -> tuple[Details, str, dict[str, OrcError]]:
    """By host, the salt they were fetched with, and the hosts that could not say."""
    salt = secrets.token_hex(16)
    images = {spec.pinned_image or spec.image for spec in plan.everything}
    script = details_script(plan.name, salt, open_variables(plan), sorted(images))

    def fetch(connection: Connection) -> HostDetails:
        result = run_script(connection, script, timeout=LOOK_TIMEOUT)
        if not result.ok:
            said = result.stderr.strip().splitlines()
            raise DeploymentError(
                said[-1] if said else f"status {result.exit_status}", where=connection.host
            )
        return parse_details(result.stdout)

    answers = pool.map(hosts, fetch)
    found = {name: answer for name, answer in answers.items() if isinstance(answer, HostDetails)}
    failed = {name: answer for name, answer in answers.items() if isinstance(answer, OrcError)}
    return found, salt, failed
