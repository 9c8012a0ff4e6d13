"""A task that is done on each host by itself: in parallel, with its retries, one result each."""

from __future__ import annotations

import time
from dataclasses import replace

from orchestrator.errors import OrcError
from orchestrator.play.action import HostAction
from orchestrator.play.host_context import HostContext
from orchestrator.play.result import HostResult, status_of
from orchestrator.play.task_run import Outcome, TaskRun
from orchestrator.play.variables import Variables
from orchestrator.transport.connection import Connection


def perform_on_hosts(one: TaskRun) -> Outcome:
    """Each host is told as soon as its result is known. Raises KeyboardInterrupt on Ctrl-C."""
    progress = one.progress
    failed: set[str] = set()
    unreachable: set[str] = set()

    def work(connection: Connection) -> None:
        host = connection.host
        variables = one.variables(host)
        try:
            result = _result(one, connection, variables)
        except OrcError as error:  # such as a condition that cannot be answered
            result = HostResult(host, "failed", str(error))
        fate = one.fate(variables) if result.status == "failed" else "failed"
        progress.register(one.task, host, one.data([result]))
        if result.status == "unreachable":
            unreachable.add(host)
        elif result.status == "failed" and fate != "ignored":
            failed.add(host)
        progress.tell(one.task, result, fate)

    try:
        progress.run.pool.map(one.hosts, work)
    except KeyboardInterrupt:
        progress.stopped.set()
        raise
    return Outcome(frozenset(failed), frozenset(unreachable))


def _result(one: TaskRun, connection: Connection, variables: Variables) -> HostResult:
    if not variables.test(one.task.when):
        return HostResult(connection.host, "skipped")
    most, delay = one.attempts(variables)
    attempt = 1
    while True:
        result = one.judged(variables, _attempt(one, connection, variables))
        if result.status in ("unreachable", "skipped") or most == 1:
            return result
        result = replace(result, data={**result.data, "attempts": attempt})
        if one.satisfied(variables, [result]):
            return result
        if attempt == most:
            text = f"given up after {attempt} attempts"
            return replace(result, status="failed", message=f"{text}\n{result.message}".strip())
        text = f"attempt {attempt} of {most}, next in {delay:g} s"
        one.progress.run.say("progress", f"{text}: {result.message}", host=connection.host)
        one.progress.pause(delay)
        attempt += 1


def _attempt(one: TaskRun, connection: Connection, variables: Variables) -> HostResult:
    action = one.task.action
    assert isinstance(action, HostAction)
    try:
        seconds = one.timeout(variables)
        context = HostContext(
            run=one.progress.run,
            connection=connection,
            variables=variables,
            directory=one.task.directory,
            deadline=None if seconds is None else time.monotonic() + seconds,
        )
        return action.perform(context, one.arguments(variables))
    except OrcError as error:
        return HostResult(connection.host, status_of(error), str(error))
