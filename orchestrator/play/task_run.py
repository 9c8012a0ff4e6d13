"""One task on the hosts that have reached it: what its keys mean, whoever carries it out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pydantic import TypeAdapter, ValidationError

from orchestrator.deployment import Seconds
from orchestrator.errors import InputError
from orchestrator.play.action import Arguments
from orchestrator.play.batches import Batch
from orchestrator.play.progress import Fate, Progress, result_data
from orchestrator.play.result import HostResult
from orchestrator.play.tasks import Play, Task
from orchestrator.play.variables import HostVars, Variables
from orchestrator.secret import Secret

DEFAULT_RETRIES = 3  # as Ansible's, for `until` without `retries`


@dataclass(frozen=True, slots=True)
class Outcome:
    """The hosts on which a task failed, and those that could not be reached."""

    failed: frozenset[str] = frozenset()
    unreachable: frozenset[str] = frozenset()


@dataclass(frozen=True)
class TaskRun:
    """`hosts` is who has reached the task; `rescued`, whether a `rescue` follows its failure."""

    task: Task
    play: Play
    progress: Progress
    batch: Batch
    hosts: Sequence[str]
    play_hosts: Sequence[str]  # of the whole play, those that have left it too
    rescued: bool = False

    @cached_property
    def replicas(self) -> Mapping[int, tuple[str, ...]]:
        """The hosts of the replicas of the batch."""
        numbers = self.batch.replicas
        everything = self.progress.run.replica_hosts
        return {n: own for n, own in everything.items() if numbers is None or n in numbers}

    def fate(self, variables: Variables) -> Fate:
        """What becomes of a failure. It is not ignored when `ignore_errors` cannot be computed."""
        ignore = self.task.ignore_errors
        try:
            if ignore and setting(variables, "ignore_errors", ignore, bool):
                return "ignored"
        except InputError as error:
            self.progress.run.say("warning", str(error))
        return "rescued" if self.rescued else "failed"

    def attempts(self, variables: Variables) -> tuple[int, float]:
        """How often the task is tried at most, and the seconds between."""
        task = self.task
        retries = task.retries
        if retries is None:
            retries = DEFAULT_RETRIES if task.until else 0
        tries = setting(variables, "retries", retries, int)
        return 1 + max(tries, 0), setting(variables, "delay", task.delay, Seconds)

    def timeout(self, variables: Variables) -> float | None:
        written = self.task.timeout
        return None if written is None else setting(variables, "timeout", written, Seconds) or None

    def arguments(self, variables: Variables) -> Arguments:
        """The task's arguments with their templates filled in, checked."""
        model = self.task.action.arguments
        values = {
            name: variables.fill_revealed(value)
            if name in model.takes_secrets
            else variables.fill(value)
            for name, value in self.task.arguments.items()
        }
        try:
            return model.model_validate(values)
        except ValidationError as error:
            faults = "; ".join(_fault(fault) for fault in error.errors())
            text = f"{self.task.action.name}: {faults}"
            raise InputError(text, where=self.task.where) from None

    def judged(self, variables: Variables, result: HostResult) -> HostResult:
        """`result` as `changed_when` and `failed_when` see it."""
        task = self.task
        if result.status in ("unreachable", "skipped"):
            return result
        if task.changed_when is None and task.failed_when is None:
            return result
        seen = variables.with_registered(task.register, self.data([result]))
        if task.changed_when is not None and result.status != "failed":
            changed = seen.test(task.changed_when, "changed_when")
            result = replace(result, status="changed" if changed else "ok")
            seen = variables.with_registered(task.register, self.data([result]))
        if task.failed_when is not None:
            failed = seen.test(task.failed_when, "failed_when")
            if failed:
                result = replace(result, status="failed", message=result.message or "failed_when")
            elif result.status == "failed":
                result = replace(result, status="ok")
        return result

    def satisfied(self, variables: Variables, results: list[HostResult]) -> bool:
        """Whether no further attempt is needed: by `until`, or by not having failed."""
        data = self.data(results)
        if self.task.until:
            return variables.with_registered(self.task.register, data).test(
                self.task.until, "until"
            )
        return not data["failed"]

    def data(self, results: list[HostResult]) -> dict[str, Any]:
        return result_data(self.progress.run, results)

    def variables(self, host: str) -> Variables:
        """What templates see on `host`."""
        progress = self.progress
        inventory = progress.hosts[host].variables
        return Variables(
            where=self.task.where,
            directory=self.task.directory,
            given=self._given(host),
            extra=progress.run.variables,
            registered=progress.registered.get(host, {}),
            written=(self.task.variables, self.play.variables),
            inventory=inventory,
        )

    def _given(self, host: str) -> Mapping[str, Callable[[], Any]]:
        """The variables that orc itself gives: Ansible's, and those of the replica."""
        progress, run = self.progress, self.progress.run
        gone = progress.out
        given: dict[str, Callable[[], Any]] = {
            "inventory_hostname": lambda: host,
            "inventory_hostname_short": lambda: host.split(".", 1)[0],
            "group_names": lambda: sorted(set(progress.hosts[host].groups) - {"all"}),
            "groups": lambda: {n: list(g.hosts) for n, g in progress.inventory.groups.items()},
            "hostvars": lambda: HostVars(progress.inventory.hosts, progress.registered),
            "ansible_play_hosts": lambda: [h for h in self.play_hosts if h not in gone],
            "ansible_play_hosts_all": lambda: list(self.play_hosts),
            "ansible_play_batch": lambda: [h for h in self.batch.hosts if h not in gone],
            "ansible_check_mode": lambda: run.check,
            "playbook_dir": lambda: str(self.task.directory.absolute()),
        }
        name = run.name or (run.deployment.deployment_name() if run.deployment else None)
        if name:
            given["deployment"] = lambda: name
        number = next((n for n, own in self.replicas.items() if host in own), None)
        if number is not None:
            own = self.replicas[number]
            given |= {
                "replica": lambda: number,
                "rank": lambda: own.index(host),
                "replica_hosts": lambda: list(own),
            }
            urls = [e.url for e in (run.plan.endpoints if run.plan else ()) if e.replica == number]
            if urls:
                given["endpoint"] = lambda: urls[0]
        return given


def setting(variables: Variables, name: str, value: Any, kind: Any) -> Any:
    """A key's value with its template filled in, as `kind`. Raises InputError."""
    try:
        return TypeAdapter(kind).validate_python(variables.fill(value))
    except ValidationError as error:
        fault = _fault(error.errors()[0])
        raise InputError(f"{name}: {fault}", where=variables.where) from None


def _fault(fault: Any) -> str:
    place = ".".join(map(str, fault["loc"]))
    said = fault["msg"].removeprefix("Value error, ")
    if isinstance(fault.get("input"), Secret):
        said = "a secret cannot stand here, where it would be shown"
    return f"{place}: {said}" if place else said
