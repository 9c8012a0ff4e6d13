"""Runs plays: batch by batch, each task in turn on its hosts, and a recap at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.deployment import Deployment
from orchestrator.documents import Document
from orchestrator.errors import InputError, OrcError
from orchestrator.events.event import Event
from orchestrator.play.batches import Batch, Unit, split, units_of
from orchestrator.play.choice import Choice
from orchestrator.play.finish import finish
from orchestrator.play.progress import Progress
from orchestrator.play.recap import Recap
from orchestrator.play.run import Run
from orchestrator.play.task_run import setting
from orchestrator.play.tasks import Block, Play, Step, split_by_level
from orchestrator.play.variables import Variables
from orchestrator.play.walk import Walk

__all__ = ["Recap", "run_plays"]


def run_plays(plays: Sequence[Play], run: Run, choice: Choice | None = None) -> Recap:
    """Run the plays, with Ansible's rules for failures.

    A host that fails leaves the run, with its whole replica; the others go on. When none is left
    of a batch, or by `any_errors_fatal` or `max_fail_percentage`, the play and the run end.
    Faults of hosts are events and counts of the recap; an OrcError that an action raised, and
    that nothing rescued, is in `Recap.error`. KeyboardInterrupt passes through.
    """
    progress = Progress(run, choice or Choice(), run.inventory)
    progress.choice.check(plays)
    for play in plays:
        try:
            going_on = _run_play(play, progress)
        except InputError as error:
            progress.tell_error(error)
            break
        if not going_on:
            break
    run.inventory = progress.inventory
    progress.recap.sort(run.inventory.hosts)
    run.emit(Event("recap", data=progress.recap.hosts))
    return progress.recap


def _run_play(play: Play, progress: Progress) -> bool:
    """Whether the run goes on after `play`. Raises InputError for a wrong key of the play."""
    run = progress.run
    settings = PlaySettings(play, run.variables)
    everyone = settings.hosts(progress)
    deployment = settings.deployment()
    if deployment is not None and deployment != run.deployment:
        finish(run, progress.recap.exit_status)
        run.turn_to(deployment)
    run.emit(Event("play", play.name))
    if all(host in progress.out for host in everyone):
        run.say("note", "no host is left for this play")
        return True

    def walk(batch: Batch, steps: Sequence[Step]) -> bool:
        """Do `steps`; whether anything is left of the batch."""
        one = Walk(
            progress,
            play,
            batch,
            everyone,
            any_errors_fatal=settings.any_errors_fatal(),
            max_fail_percentage=settings.max_fail_percentage(),
        )
        if not one.left():  # all of it failed in an earlier play
            return True
        one.run(steps)
        return bool(one.left())

    head, body, tail = split_by_level(play.tasks)
    around = [Block(hook, per_replica=True) for hook in (play.hooks.before, play.hooks.after)]
    body = (around[0], *body, around[1]) if body else body
    whole = Batch(tuple(units_of(everyone, {})), tuple(everyone))
    if not play.serial:
        return walk(whole, (*head, *body, *tail))
    if head and not walk(whole, head):
        return False
    if body:
        for batch in _batches(play, settings, everyone, run):
            if not walk(batch, body):
                return False
    return walk(whole, tail) if tail else True


def _batches(play: Play, settings: PlaySettings, everyone: Sequence[str], run: Run) -> list[Batch]:
    """The play's batches: of replicas where the run has a deployment, else of hosts."""
    replicas = run.replica_hosts
    units = units_of(everyone, replicas)
    if run.rolling is not None:
        by_number = {unit.replica: unit for unit in units}
        units = [by_number[number] for number in run.rolling if number in by_number]
    elif replicas:
        spare = [unit.hosts[0] for unit in units if unit.replica is None]
        units = [unit for unit in units if unit.replica is not None]
        if spare:
            run.say("note", f"{', '.join(spare)}: of no replica, so in no batch")
    elif run.deployment is not None or run.name is not None:
        raise InputError(
            "serial counts replicas, and which there are is not known yet",
            where=play.where,
            hint="begin the play with the task `preflight`",
        )
    return [_batch(part, everyone) for part in split(units, settings.serial(), play.where)]


def _batch(units: tuple[Unit, ...], everyone: Sequence[str]) -> Batch:
    mine = {host for unit in units for host in unit.hosts}
    numbers = frozenset(unit.replica for unit in units if unit.replica is not None)
    return Batch(units, tuple(host for host in everyone if host in mine), numbers)


class PlaySettings:
    """The keys of a play that may be templates, of the play's variables and the command line's."""

    def __init__(self, play: Play, extra: Mapping[str, Any]) -> None:
        self._play = play
        self._variables = Variables(where=play.where, extra=extra, written=(play.variables,))

    def pattern(self) -> str:
        """The play's hosts, as a pattern."""
        return str(self._variables.fill(self._play.hosts))

    def deployment(self) -> Deployment | None:
        """The play's deployment; the templates of its environment are left to the plan."""
        written = self._play.deployment
        if written is None:
            return None
        data = {n: v if n == "env" else self._variables.fill(v) for n, v in written.items()}
        return Document(self._play.where, "", data, lines=False).validate(Deployment)

    def hosts(self, progress: Progress) -> list[str]:
        """The names of the play's hosts, in the order of its pattern."""
        try:
            return progress.select(self.pattern())
        except OrcError as error:
            raise InputError(error.what, where=self._play.where, hint=error.hint) from None

    def serial(self) -> list[int | str]:
        sizes: list[int | str] = []
        for written in self._play.serial:
            value: Any = self._variables.fill(written)
            sizes += value if isinstance(value, list) else [value]
        return sizes

    def any_errors_fatal(self) -> bool:
        fatal = self._play.any_errors_fatal
        return bool(setting(self._variables, "any_errors_fatal", fatal, bool))

    def max_fail_percentage(self) -> float | None:
        most = self._play.max_fail_percentage
        return (
            None
            if most is None
            else float(setting(self._variables, "max_fail_percentage", most, float))
        )
