"""Look at the containers of many hosts, one round trip each, in parallel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.errors import OrcError, UnreachableError, each_cause_once
from orchestrator.runtime.containers import ContainerState, HostObservation, parse_observation
from orchestrator.runtime.scripts import Script, observe_script
from orchestrator.transport.connection import CommandResult, Connection
from orchestrator.transport.pool import ConnectionPool

# A look takes 0.1 s; a daemon that does not answer must not hold up the look at the others.
LOOK_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True)
class Observation:
    """What the hosts said. A host is in `unknown` when it, or its docker, did not answer.

    Why is all that its error says, on several lines: `explained` says each cause once.
    """

    hosts: tuple[HostObservation, ...] = ()
    unreachable: Mapping[str, str] = field(default_factory=dict)  # host -> why
    broken: Mapping[str, str] = field(default_factory=dict)  # reached, but docker did not answer

    @property
    def unknown(self) -> dict[str, str]:
        return {**self.unreachable, **self.broken}

    @property
    def explained(self) -> dict[str, str]:
        """As `unknown`, for a person."""
        return each_cause_once(self.unknown)

    def containers(self, deployment: str | None = None) -> tuple[ContainerState, ...]:
        """Our containers, of one deployment or of all, by deployment, replica and rank.

        Those that a roll has put aside are in `aside`.
        """
        return tuple(state for state in self._ours(deployment) if not state.aside)

    def aside(self, deployment: str | None = None) -> tuple[ContainerState, ...]:
        """What a roll has put aside, to go back to."""
        return tuple(state for state in self._ours(deployment) if state.aside)

    def shown(self, deployment: str | None = None) -> tuple[ContainerState, ...]:
        """Our containers; of a group that a roll has stopped and not started, those put aside."""
        there = {(state.deployment, state.replica) for state in self.containers(deployment)}
        return tuple(
            state
            for state in self._ours(deployment)
            if not state.aside or (state.deployment, state.replica) not in there
        )

    def everything(self, deployment: str) -> tuple[ContainerState, ...]:
        """All containers of a deployment, also those put aside."""
        return self._ours(deployment)

    def deployments(self) -> list[str]:
        return sorted({state.deployment for state in self._ours(None) if state.deployment})

    def _ours(self, deployment: str | None) -> tuple[ContainerState, ...]:
        found = [
            state
            for host in self.hosts
            for state in host.containers
            if state.deployment and deployment in (None, state.deployment)
        ]
        return tuple(sorted(found, key=lambda s: (s.deployment or "", s.replica, s.rank, s.host)))


def run_script(
    connection: Connection, script: Script, *, timeout: float | None = None
) -> CommandResult:
    """Run a script of `runtime.scripts` on a host."""
    return connection.script(script.text, script.arguments, timeout=timeout)


def observe_host(
    connection: Connection, last_line_of: Sequence[str] = (), *, gpus: bool = False
) -> HostObservation:
    """One look at one host. Raises UnreachableError; a docker that is down is a result."""
    result = run_script(connection, observe_script(last_line_of, gpus=gpus), timeout=LOOK_TIMEOUT)
    return parse_observation(connection.host, result.exit_status, result.stdout, result.stderr)


def observe(pool: ConnectionPool, hosts: Iterable[str], *, gpus: bool = False) -> Observation:
    """One look at every host; with `gpus` also at how much of its GPUs is in use."""
    answers = pool.map(hosts, lambda connection: observe_host(connection, gpus=gpus))
    seen: list[HostObservation] = []
    unreachable: dict[str, str] = {}
    broken: dict[str, str] = {}
    for name, answer in answers.items():
        if isinstance(answer, UnreachableError):
            unreachable[name] = answer.reason
        elif isinstance(answer, OrcError):
            broken[name] = answer.reason
        elif answer.error:
            broken[name] = answer.error
        else:
            seen.append(answer)
    return Observation(tuple(seen), unreachable, broken)
