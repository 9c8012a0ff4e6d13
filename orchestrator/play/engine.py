"""Runs plays: each task in turn on its hosts, every result as an event, a recap at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from orchestrator.errors import ErrorGroup, ExitStatus, InputError, OrcError, UnreachableError
from orchestrator.events.event import Event
from orchestrator.inventory.templating import render
from orchestrator.play.action import Arguments, HostResult
from orchestrator.play.playbook import Play, Task
from orchestrator.play.run import Run


@dataclass
class Recap:
    """How many tasks ended how on each host. A failure ends the run."""

    hosts: dict[str, dict[str, int]] = field(default_factory=dict)
    error: OrcError | None = None

    def count(self, result: HostResult) -> None:
        counts = self.hosts.setdefault(result.host, {})
        counts[result.status] = counts.get(result.status, 0) + 1

    def total(self, status: str) -> int:
        return sum(counts.get(status, 0) for counts in self.hosts.values())

    @property
    def exit_status(self) -> ExitStatus:
        if self.error is not None:
            return self.error.exit_status
        if self.total("failed"):
            return ExitStatus.FAILED
        if self.total("unreachable"):
            return ExitStatus.UNREACHABLE
        return ExitStatus.OK


def run_plays(plays: Sequence[Play], run: Run) -> Recap:
    """Run the plays; the first task that fails on any host ends the run.

    Faults of hosts are events and counts of the recap; an OrcError that an action raises is in
    `Recap.error`. KeyboardInterrupt passes through.
    """
    recap = Recap()
    everything = run.inventory
    for play in plays:
        run.inventory = everything if play.hosts == "all" else everything.limit(play.hosts)
        run.deployment = play.deployment or run.deployment
        run.emit(Event("play", play.name))
        for task in play.tasks:
            if not task.action.applies(run):
                continue
            _run_task(task, play, run, recap)
            if recap.exit_status != ExitStatus.OK:
                return _end(run, recap)
    return _end(run, recap)


def _end(run: Run, recap: Recap) -> Recap:
    run.emit(Event("recap", data=recap.hosts))
    return recap


def _run_task(task: Task, play: Play, run: Run, recap: Recap) -> None:
    run.emit(Event("task", task.name, task=task.action.name))

    def report(result: HostResult) -> None:
        recap.count(result)
        run.emit(
            Event(
                result.status,
                run.clean(result.message).removeprefix(f"{result.host}: "),
                host=result.host,
                replica=result.replica,
                rank=result.rank,
                task=task.action.name,
                data=result.data,
            )
        )

    try:
        arguments = _arguments(task, {**play.variables, **run.variables})
        task.action.perform(run, arguments, report)
    except ErrorGroup as group:
        recap.error = group
        for error in group.errors:
            _emit_error(run, error)
    except OrcError as error:
        recap.error = error
        _emit_error(run, error)


def _emit_error(run: Run, error: OrcError) -> None:
    run.say("unreachable" if isinstance(error, UnreachableError) else "failed", str(error))


def _arguments(task: Task, variables: Mapping[str, Any]) -> Arguments:
    """The task's arguments with their templates filled in, checked."""
    filled = {name: _fill(value, variables, task) for name, value in task.arguments.items()}
    try:
        return task.action.arguments.model_validate(filled)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()
        )
        raise InputError(f"{task.action.name}: {faults}", where=task.where) from None


def _fill(value: Any, variables: Mapping[str, Any], task: Task) -> Any:
    from jinja2 import TemplateError

    if isinstance(value, dict):
        return {key: _fill(inner, variables, task) for key, inner in value.items()}
    if isinstance(value, list):
        return [_fill(inner, variables, task) for inner in value]
    if not isinstance(value, str) or "{" not in value:
        return value
    try:
        return render(value, variables.__getitem__, {})
    except TemplateError as error:
        raise InputError(
            f"{value!r}: {error}",
            where=task.where,
            hint="give it in the play's `vars:`",
        ) from None
