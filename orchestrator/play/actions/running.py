"""What of the run's deployment runs now, by the labels of its containers alone."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from orchestrator.errors import DeploymentError, ErrorGroup, InputError, OrcError, UnreachableError
from orchestrator.health.endpoint import Target
from orchestrator.health.observation import observe
from orchestrator.health.targets import running_targets
from orchestrator.play.run import Run
from orchestrator.runtime.containers import ContainerState


@dataclass(frozen=True, slots=True)
class Running:
    """The containers of one deployment, running or ended; `aside`: what a roll keeps of it."""

    deployment: str
    states: tuple[ContainerState, ...]
    aside: tuple[ContainerState, ...]

    @property
    def numbers(self) -> list[int]:
        """The replicas that are there, or were before a roll; no services."""
        there = {state.replica for state in (*self.states, *self.aside)}
        return sorted(number for number in there if number >= 0)

    def replicas(self, run: Run) -> list[int]:
        """Those of the batch."""
        return [number for number in self.numbers if run.in_scope(number)]

    def of(self, replica: int) -> list[ContainerState]:
        return [state for state in self.states if state.replica == replica]

    def aside_of(self, replica: int) -> list[ContainerState]:
        return [state for state in self.aside if state.replica == replica]

    def targets(self, replica: int) -> list[Target]:
        return running_targets(self.of(replica))

    @property
    def router(self) -> ContainerState | None:
        found = [s for s in self.states if s.role == "router" and s.running and s.endpoint]
        return found[0] if found else None


def hosts_of_batch(run: Run) -> set[str] | None:
    """Where the batch's replicas and the services were when last seen; None if nothing was.

    What brings these back to serving needs no other host: one that has gone away meanwhile must
    not keep them from it.
    """
    seen = run.observation.everything(run.name or "") if run.observation else ()
    return {s.host for s in seen if s.replica < 0 or run.in_scope(s.replica)} or None


def running(run: Run, needed: Collection[str] | None = None) -> Running:
    """Look at all hosts of the run. Raises OrcError where a host does not answer (of those that
    are `needed`, if they are given): what a roll does rests on knowing the whole deployment. It
    is the run's observation from then on."""
    if run.name is None:
        raise InputError("which deployment is meant was not said")
    seen = observe(run.pool, [name for name in run.inventory.hosts if name not in run.unreachable])
    why = seen.explained
    errors: dict[str, OrcError] = {
        host: UnreachableError(why[host], where=host) for host in seen.unreachable
    }
    errors |= {host: DeploymentError(why[host], where=host) for host in seen.broken}
    for host, error in errors.items():
        if needed is not None and host not in needed:
            run.say("warning", f"goes on without it: {error.what}", host=host)
    if fatal := [error for host, error in errors.items() if needed is None or host in needed]:
        raise ErrorGroup(fatal)
    run.observation = seen
    return Running(run.name, seen.containers(run.name), seen.aside(run.name))
