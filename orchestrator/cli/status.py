"""`orc status`: what runs, and whether it is healthy. Needs only the inventory and the labels."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from orchestrator.cli.grouped import grouped
from orchestrator.cli.options import (
    DeploymentArgument,
    JsonOption,
    VerboseOption,
)
from orchestrator.cli.session import Reach, not_there, session, where_known
from orchestrator.errors import ExitStatus
from orchestrator.planning.service import group_name

if TYPE_CHECKING:
    from orchestrator.health.observation import Observation
    from orchestrator.health.status import DeploymentStatus, ReplicaStatus

# A completion under load may take long; that alone is no failure, so it is not waited for.
_COMPLETION_TIMEOUT = 5.0


@grouped
def status(
    reach: Reach,
    name: DeploymentArgument = None,
    as_json: JsonOption = False,
    verbose: VerboseOption = 0,  # noqa: ARG001 - read in cli.main
) -> int:
    """Show every rank and endpoint. Exit status: 0 healthy, 2 failed, 4 hosts unreachable."""
    from orchestrator.health.observation import observe
    from orchestrator.health.probe import probe_endpoints
    from orchestrator.health.status import deployment_statuses
    from orchestrator.health.targets import running_targets

    with session(reach) as opened:
        seen = observe(opened.pool, opened.inventory.hosts)
        states = seen.containers(name)
        checks = probe_endpoints(
            opened.pool, running_targets(states), completion_timeout=_COMPLETION_TIMEOUT
        )
    statuses = deployment_statuses(states, checks, seen.unknown)
    result = exit_status(statuses, seen, name)
    if as_json:
        document = {
            "deployments": [one.to_dict() for one in statuses],
            "unreachable": dict(seen.unreachable),
            "broken": dict(seen.broken),
            "exit_status": int(result),
        }
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        sys.stdout.write("\n".join(status_lines(statuses, seen, name)) + "\n")
    return int(result)


def exit_status(
    statuses: Sequence[DeploymentStatus], seen: Observation, name: str | None = None
) -> ExitStatus:
    """A failure that is known weighs more than what is not known.

    A deployment that was named and of which no container runs anywhere is a failure as well.
    """
    if any(one.failed for one in statuses) or seen.broken:
        return ExitStatus.FAILED
    if seen.unreachable:
        return ExitStatus.UNREACHABLE
    return ExitStatus.FAILED if name and not statuses else ExitStatus.OK


def status_lines(
    statuses: Sequence[DeploymentStatus], seen: Observation, name: str | None
) -> list[str]:
    """The whole output for a person."""
    lines: list[str] = []
    for one in statuses:
        lines.append(one.name)
        for replica in one.replicas:
            lines += _replica_lines(replica)
    if not statuses:
        text = not_there(seen, name) if name else "nothing is deployed"
        lines.append(text + where_known(seen))
    for host, why in _unknown(seen).items():
        lines.append(f"{host}: unknown: {why.removeprefix(f'{host}: ')}")
    return lines


def _unknown(seen: Observation) -> Mapping[str, str]:
    return {**seen.unreachable, **{host: f"docker: {why}" for host, why in seen.broken.items()}}


def _replica_lines(replica: ReplicaStatus) -> list[str]:
    detail = f": {replica.detail}" if replica.detail else ""
    lines = [f"  {group_name(replica.replica)}  {replica.health}{detail}"]
    for rank in replica.ranks:
        up = "" if rank.up_seconds is None else f"  up {_duration(rank.up_seconds)}"
        again = f"  restarted {rank.restart_count} times" if rank.restart_count else ""
        lines.append(
            f"    rank {rank.rank}  {rank.role:<9} {rank.host or '-':<16} {rank.state}{up}{again}"
        )
    for target, check in replica.endpoints:
        lines.append(f"    {target.url}  {target.model}  {check.detail or 'answers'}")
    return lines


def _duration(seconds: float) -> str:
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
