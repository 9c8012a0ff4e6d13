"""Ask many endpoints at once."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.errors import DeploymentError, OrcError
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


def require_key(pool: ConnectionPool, targets: Sequence[Target]) -> None:
    """Raises DeploymentError where an endpoint that answers wants another API key than orc has.

    To be asked before it is stopped: without the key, it could not be told afterwards whether it
    answers again.
    """
    checks = probe_endpoints(pool, targets, completion=False)
    refused = [target.url for target, check in checks.items() if check.key_refused]
    if refused:
        raise DeploymentError(
            f"{refused[0]} wants an API key",
            why="without it, it cannot be seen whether it answers again; nothing was stopped",
            hint="set VLLM_API_KEY to it where orc runs",
        )
