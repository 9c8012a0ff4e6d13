"""`orc probe`: ask every endpoint once, and say how long it took."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli.grouped import grouped
from orchestrator.cli.options import (
    DeploymentArgument,
    JsonOption,
    VerboseOption,
)
from orchestrator.cli.session import Reach, nothing_there, session
from orchestrator.errors import ExitStatus
from orchestrator.planning.service import group_name

if TYPE_CHECKING:
    from orchestrator.health.endpoint import EndpointCheck, Target
    from orchestrator.health.observation import Observation


@grouped
def probe(
    reach: Reach,
    name: DeploymentArgument = None,
    tokens: Annotated[int, typer.Option("--tokens", min=1, help="Tokens to ask for.")] = 16,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.1, help="Seconds for one completion.")
    ] = 60.0,
    as_json: JsonOption = False,
    verbose: VerboseOption = 0,  # noqa: ARG001 - read in cli.main
) -> int:
    """Ask every endpoint for a completion, and time it.

    Its health and its models are asked for as well.
    """
    from orchestrator.health.observation import observe
    from orchestrator.health.probe import probe_endpoints
    from orchestrator.health.targets import running_targets

    with session(reach) as opened:
        seen = observe(opened.pool, opened.inventory.hosts)
        targets = running_targets(seen.containers(name))
        checks = probe_endpoints(opened.pool, targets, tokens=tokens, completion_timeout=timeout)
    status = _exit_status(checks, seen)
    if as_json:
        document = {
            "endpoints": [_check_dict(target, check) for target, check in checks.items()],
            "unreachable": dict(seen.unreachable),
            "broken": dict(seen.broken),
            "exit_status": int(status),
        }
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        sys.stdout.write("\n".join(_lines(checks, seen, name)) + "\n")
    return int(status)


def _exit_status(checks: dict[Target, EndpointCheck], seen: Observation) -> ExitStatus:
    if any(not check.healthy for check in checks.values()) or seen.broken:
        return ExitStatus.FAILED
    if seen.unreachable:
        return ExitStatus.UNREACHABLE
    return ExitStatus.OK if checks else ExitStatus.FAILED


def _lines(checks: dict[Target, EndpointCheck], seen: Observation, name: str | None) -> list[str]:
    from orchestrator.health.endpoint import describe

    lines = []
    for target, check in checks.items():
        lines.append(f"{group_name(target.replica)}  {target.url}  {target.model}")
        lines.append(f"  {describe(check)}")
        if check.text:
            lines.append(f"  said: {check.text!r}")
    if not checks:
        there = bool(seen.containers(name))
        lines.append("none of its endpoints runs" if there else nothing_there(seen, name))
    for host, why in seen.explained.items():
        lines.append(f"{host}: unknown: {why}")
    return lines


def _check_dict(target: Target, check: EndpointCheck) -> dict[str, Any]:
    return {
        "replica": target.replica,
        "host": target.host,
        "url": target.url,
        "model": target.model,
        "data_ranks": list(target.data_ranks),
        "healthy": check.healthy,
        "stage": check.stage,
        "detail": check.detail,
        "models": list(check.models),
        "text": check.text,
        "connect_seconds": check.connect_seconds,
        "first_token_seconds": check.first_token_seconds,
        "total_seconds": check.total_seconds,
    }
