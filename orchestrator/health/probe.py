"""Ask many endpoints at once."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.errors import OrcError
from orchestrator.health.endpoint import EndpointCheck, Target, check_endpoint
from orchestrator.transport.connection import Connection
from orchestrator.transport.pool import ConnectionPool


def probe_endpoints(
    pool: ConnectionPool,
    targets: Sequence[Target],
    *,
    completion: bool = True,
    tokens: int = 1,
    completion_timeout: float = 60.0,
) -> dict[Target, EndpointCheck]:
    """Check every endpoint from its own host, hosts in parallel."""

    def probe(connection: Connection) -> list[tuple[Target, EndpointCheck]]:
        return [
            (
                target,
                check_endpoint(
                    connection,
                    target,
                    completion=completion,
                    tokens=tokens,
                    completion_timeout=completion_timeout,
                ),
            )
            for target in targets
            if target.host == connection.host
        ]

    answers = pool.map(dict.fromkeys(target.host for target in targets), probe)
    checks: dict[Target, EndpointCheck] = {}
    for host, answer in answers.items():
        if isinstance(answer, OrcError):
            failed = EndpointCheck("connect", answer.what)
            checks |= {target: failed for target in targets if target.host == host}
        else:
            checks |= dict(answer)
    return {target: checks[target] for target in targets}
