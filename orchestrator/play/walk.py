"""Tasks and blocks on the hosts of a batch, in step: every host ends a task before any goes on.

The order is that of Ansible's linear strategy: a block's tasks, then its `rescue` on the hosts
on which one of them failed, then its `always` on all that can be reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from orchestrator.errors import InputError
from orchestrator.events.event import Event
from orchestrator.play.action import Action
from orchestrator.play.batches import Batch, Unit, units_of
from orchestrator.play.group_task import perform_on_groups
from orchestrator.play.host_task import perform_on_hosts
from orchestrator.play.progress import Progress
from orchestrator.play.task_run import TaskRun
from orchestrator.play.tasks import Block, Play, Step, Task


class PlayEnded(Exception):
    """More failed than `max_fail_percentage` allows: nothing more is done, no rescue either."""


@dataclass(frozen=True, slots=True)
class _Inside:
    """Where a step stands: whether a `rescue`, or an `always`, follows when it fails."""

    rescued: bool = False
    shielded: bool = False


@dataclass
class Walk:
    """One batch. `lost` are the hosts that failed for good, `gone` those not reached any more."""

    progress: Progress
    play: Play
    batch: Batch
    play_hosts: Sequence[str]
    any_errors_fatal: bool = False
    max_fail_percentage: float | None = None
    lost: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    _fatal: bool = False

    def run(self, steps: Sequence[Step]) -> None:
        """Do `steps` on the batch's hosts that are left. Failures end up in `progress.out`."""
        try:
            self._steps(steps, self.left(), _Inside())
        except PlayEnded:
            self.lost |= set(self.batch.hosts)
            self.progress.out |= self.lost

    def left(self) -> list[str]:
        """The hosts that are still in the play, in its order."""
        return [host for host in self.batch.hosts if host not in self.progress.out]

    def _steps(self, steps: Sequence[Step], hosts: Sequence[str], inside: _Inside) -> set[str]:
        """Do `steps` on `hosts`, each on those that did not fail before; returns who failed."""
        failed: set[str] = set()
        for step in steps:
            left = [host for host in hosts if host not in failed and host not in self.gone]
            if not left:
                break
            if isinstance(step, Block):
                failed |= self._block(step, left, inside)
            else:
                failed |= self._task(step, left, inside)
            if self._fatal:
                failed = set(hosts) - self.gone
            if not inside.shielded:
                self._lose(failed)
            if self._fatal:
                break
        return failed

    def _block(self, block: Block, hosts: Sequence[str], inside: _Inside) -> set[str]:
        if block.per_replica:
            hosts = self._heads(hosts)
        rescued = inside.rescued or bool(block.rescue)
        shielded = inside.shielded or bool(block.rescue or block.always)
        failed = self._steps(block.tasks, hosts, _Inside(rescued, shielded))
        if failed and block.rescue:
            self._fatal = False
            own = [host for host in self.batch.hosts if host in failed]
            after = _Inside(inside.rescued, inside.shielded or bool(block.always))
            failed = self._steps(block.rescue, own, after)
        if block.always:
            fatal, self._fatal = self._fatal, False
            present = [host for host in hosts if host not in self.gone]
            failed |= self._steps(block.always, present, inside)
            self._fatal = self._fatal or fatal
        return failed

    def _heads(self, hosts: Sequence[str]) -> list[str]:
        """The first host of each replica, and every host that is in none."""
        return [unit.hosts[0] for unit in self._units(hosts)]

    def _task(self, task: Task, hosts: Sequence[str], inside: _Inside) -> set[str]:
        """One task, if it is wanted; returns the hosts that it failed, whole replicas."""
        choice, run = self.progress.choice, self.progress.run
        action = task.action
        if not choice.wants(task):
            return set()
        if isinstance(action, Action) and not action.applies(run):
            return set()
        if not choice.confirmed(task):
            return set()
        one = TaskRun(
            task=task,
            play=self.play,
            progress=self.progress,
            batch=self.batch,
            hosts=hosts,
            play_hosts=self.play_hosts,
            rescued=inside.rescued,
        )
        run.emit(Event("task", self._name(one), task=action.name))
        if isinstance(action, Action):
            here = hosts if action.level == "batch" else self._alive()
            run.inventory = self.progress.inventory.only(here)
            outcome = perform_on_groups(one)
        else:
            outcome = perform_on_hosts(one)
        self.gone |= outcome.unreachable
        self.progress.out |= outcome.unreachable
        direct = outcome.failed | outcome.unreachable
        if direct and (self.any_errors_fatal or task.any_errors_fatal):
            self._fatal = True
        return self._with_replicas(direct) - self.gone

    def _name(self, one: TaskRun) -> str:
        try:
            return str(one.variables(one.hosts[0]).fill(one.task.name))
        except InputError:
            return one.task.name

    def _alive(self) -> list[str]:
        return [host for host in self.play_hosts if host not in self.progress.out]

    def _with_replicas(self, failed: Iterable[str]) -> set[str]:
        """`failed` with the other hosts of their replicas: they fail together."""
        direct = set(failed)
        if not direct:
            return direct
        everyone = set(direct)
        for unit in self._units(self.batch.hosts):
            if direct & set(unit.hosts):
                others = set(unit.hosts) - direct - self.gone - self.lost
                everyone |= set(unit.hosts)
                if others and unit.replica is not None:
                    named = ", ".join(host for host in unit.hosts if host in others)
                    text = f"replica {unit.replica} leaves the play whole, with {named}"
                    self.progress.run.say("note", text, replica=unit.replica)
        return everyone

    def _units(self, hosts: Sequence[str]) -> list[Unit]:
        return units_of(hosts, self.progress.run.replica_hosts)

    def _lose(self, failed: set[str]) -> None:
        """Take hosts out for good. Raises PlayEnded when more than `max_fail_percentage` of the
        batch is out by that."""
        self.lost |= failed
        self.progress.out |= failed
        if self.max_fail_percentage is None:
            return
        out = self.lost | self.gone
        units = self._units(self.batch.hosts)
        count = sum(1 for unit in units if out & set(unit.hosts))
        if count and count / len(units) > self.max_fail_percentage / 100:
            raise PlayEnded
