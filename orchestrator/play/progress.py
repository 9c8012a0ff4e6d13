"""A run as it goes: which hosts have left it, what tasks registered, what is told and counted."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from orchestrator.errors import ErrorGroup, OrcError
from orchestrator.events.event import Event
from orchestrator.inventory.host import Host
from orchestrator.inventory.load import Inventory, implicit_localhost
from orchestrator.play.choice import Choice
from orchestrator.play.recap import Recap
from orchestrator.play.result import HostResult, status_of
from orchestrator.play.run import Run
from orchestrator.play.tasks import Task

# What becomes of a failure: it counts, it is ignored, or a `rescue` follows.
Fate = Literal["failed", "ignored", "rescued"]


@dataclass
class Progress:
    """`out` are the hosts that failed or could not be reached: no later play has them."""

    run: Run
    choice: Choice
    inventory: Inventory  # as the run was given it: plays narrow that of the run
    recap: Recap = field(default_factory=Recap)
    out: set[str] = field(default_factory=set)
    registered: dict[str, dict[str, Any]] = field(default_factory=dict)
    hosts: dict[str, Host] = field(default_factory=dict)  # that some play has had so far
    stopped: threading.Event = field(default_factory=threading.Event)  # by Ctrl-C
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def select(self, pattern: str) -> list[str]:
        """The names of a pattern's hosts, in its order. `localhost` need not be in the inventory.

        None when --limit has left none of them. Raises InputError for a name that does not exist.
        """
        names = self.inventory.matching(pattern)
        for name in names:
            if name in self.inventory.hosts:
                self.hosts[name] = self.inventory.hosts[name]
            else:
                self.hosts[name] = implicit_localhost(name)
                self.run.pool.add(self.hosts[name])
        return names

    def tell(self, task: Task, result: HostResult, fate: Fate = "failed") -> None:
        """One host's result, as an event and in the recap. Any thread may call it."""
        run = self.run
        column = fate if result.status == "failed" else result.status
        message = run.clean(result.message).removeprefix(f"{result.host}: ")
        if column == "ignored":
            message = f"{message}\n(ignored)".lstrip()
        event = Event(
            result.status,
            message,
            host=result.host,
            replica=result.replica,
            rank=result.rank,
            task=task.action.name,
            data=_cleaned(run, result.data),
        )
        with self._lock:
            self.recap.count(result.host, column)
            run.emit(event)

    def tell_error(self, error: OrcError, fate: Fate = "failed") -> None:
        """What an action raised; it decides the exit status unless it is ignored or rescued."""
        if fate == "failed":
            self.recap.error = error
        for one in error.errors if isinstance(error, ErrorGroup) else (error,):
            self.run.say(status_of(one), f"{one}\n(ignored)" if fate == "ignored" else str(one))

    def count_error(self, error: OrcError, fate: Fate) -> None:
        """Count what an action raised in the recap, under the hosts that it names."""
        for one in error.errors if isinstance(error, ErrorGroup) else (error,):
            host = one.host or one.where
            if host in self.hosts:
                status = status_of(one)
                column = fate if status == "failed" or fate == "ignored" else status
                with self._lock:
                    self.recap.count(host, column)

    def register(self, task: Task, host: str, result: Mapping[str, Any]) -> None:
        """Keep a result for the templates of later tasks; a failure also for a `rescue`."""
        with self._lock:
            kept = self.registered.setdefault(host, {})
            if task.register is not None:
                kept[task.register] = result
            if result["failed"]:
                kept["ansible_failed_task"] = {"name": task.name, "action": task.action.name}
                kept["ansible_failed_result"] = result

    def pause(self, seconds: float) -> None:
        """Wait between two attempts. Raises KeyboardInterrupt once the run is interrupted."""
        if self.stopped.wait(seconds):
            raise KeyboardInterrupt


def result_data(run: Run, results: list[HostResult]) -> dict[str, Any]:
    """What `register` keeps of a task's results on one host, without secrets."""
    statuses = {result.status for result in results}
    data: dict[str, Any] = {}
    for result in results:
        data |= result.data
    return {
        **_cleaned(run, data),
        "changed": "changed" in statuses or data.get("changed") is True,
        "failed": "failed" in statuses,
        "unreachable": "unreachable" in statuses,
        "skipped": bool(statuses) and statuses <= {"skipped"},
        "msg": run.clean("\n".join(result.message for result in results if result.message)),
    }


def _cleaned(run: Run, value: Any) -> Any:
    if isinstance(value, str):
        return run.clean(value)
    if isinstance(value, dict):
        return {key: _cleaned(run, part) for key, part in value.items()}
    return [_cleaned(run, part) for part in value] if isinstance(value, list) else value
