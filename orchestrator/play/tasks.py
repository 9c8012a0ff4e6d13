"""Plays, tasks and blocks as data, after they were read and checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.play.action import AnyAction
from orchestrator.play.templates import Condition


@dataclass(frozen=True, slots=True)
class Task:
    """One step of a play: an action, its arguments, and what the task's other keys say.

    What a block or an include gives (`when`, `vars`, `tags`, ...) is in each of its tasks.
    Values may hold templates, which are filled in for each host when the task is reached.
    """

    name: str
    action: AnyAction
    arguments: Mapping[str, Any]
    where: str  # file:line
    directory: Path = Path()  # of the file that it stands in; relative paths start there
    when: tuple[Condition, ...] = ()
    register: str | None = None
    until: tuple[Condition, ...] = ()
    retries: int | str | None = None
    delay: float | str = 5
    timeout: float | str | None = None  # seconds, or as 5m
    ignore_errors: bool | str = False
    failed_when: tuple[Condition, ...] | None = None
    changed_when: tuple[Condition, ...] | None = None
    tags: frozenset[str] = frozenset()
    variables: Mapping[str, Any] = field(default_factory=dict)
    any_errors_fatal: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """Tasks with what is done when they fail, and what is done in any case.

    `per_replica`: hooks, which are run once for each replica, on its first host.
    """

    tasks: tuple[Step, ...]
    rescue: tuple[Step, ...] = ()
    always: tuple[Step, ...] = ()
    per_replica: bool = False


Step = Task | Block


@dataclass(frozen=True, slots=True)
class Hooks:
    """What is done before and after each replica, or each host where there is no deployment."""

    before: tuple[Step, ...] = ()
    after: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class Play:
    """Tasks for the hosts of a pattern."""

    name: str
    hosts: str
    tasks: tuple[Step, ...]
    deployment: Mapping[str, Any] | None = None  # the fields of a Deployment, maybe templates
    variables: Mapping[str, Any] = field(default_factory=dict)
    serial: tuple[int | str, ...] = ()  # numbers, percentages, templates; none: all at once
    max_fail_percentage: float | str | None = None
    any_errors_fatal: bool | str = False
    hooks: Hooks = Hooks()
    where: str = ""

    def all_tasks(self) -> Iterator[Task]:
        """Every task in the order in which they stand, those of hooks around the others."""
        yield from leaves(self.hooks.before)
        yield from leaves(self.tasks)
        yield from leaves(self.hooks.after)


def leaves(steps: tuple[Step, ...]) -> Iterator[Task]:
    """The tasks in `steps` and in their blocks, in the order in which they stand."""
    for step in steps:
        if isinstance(step, Task):
            yield step
        else:
            yield from leaves((*step.tasks, *step.rescue, *step.always))


def split_by_level(
    steps: tuple[Step, ...],
) -> tuple[tuple[Step, ...], tuple[Step, ...], tuple[Step, ...]]:
    """`steps` as (head, body, tail): what leads and what trails acts on the whole deployment."""

    def whole(step: Step) -> bool:
        return all(task.action.level == "deployment" for task in leaves((step,)))

    others = [index for index, step in enumerate(steps) if not whole(step)]
    if not others:
        return steps, (), ()
    first, last = others[0], others[-1] + 1
    return steps[:first], steps[first:last], steps[last:]
