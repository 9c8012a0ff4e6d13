"""A playbook as it is written: a list of plays, each a list of tasks. Checked when it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from orchestrator.deployment import Deployment
from orchestrator.documents import Document, read_document
from orchestrator.errors import did_you_mean
from orchestrator.packaged import packaged_directory
from orchestrator.play.action import Action

_TASK_KEYS = ("name",)


class _PlayDocument(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str | None = None
    hosts: str = "all"
    deployment: dict[str, Any] | None = None
    vars: dict[str, Any] = Field(default_factory=dict)
    tasks: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Task:
    """One step of a play: an action and its arguments, which may hold templates."""

    name: str
    action: Action
    arguments: Mapping[str, Any]
    where: str  # file:line


@dataclass(frozen=True, slots=True)
class Play:
    """Tasks for the hosts of a pattern."""

    name: str
    hosts: str
    tasks: tuple[Task, ...]
    deployment: Deployment | None = None
    variables: Mapping[str, Any] = field(default_factory=dict)


def packaged_playbook(name: str) -> Path:
    """The path of a playbook that ships with orc, such as `launch`."""
    return packaged_directory("playbooks") / f"{name}.yml"


def read_playbook(path: Path | str, actions: Mapping[str, Action]) -> tuple[Play, ...]:
    """The plays of the playbook at `path`.

    Raises InputError with file, line and the nearest right name for an unknown key, action or
    argument.
    """
    document = read_document(path)
    if not isinstance(document.data, list) or not document.data:
        raise document.error("a playbook is a list of plays", hint="begin with `- name: ...`")
    return tuple(_play(document, index, data, actions) for index, data in enumerate(document.data))


def _play(document: Document, index: int, data: Any, actions: Mapping[str, Action]) -> Play:
    written = document.validate(_PlayDocument, data, (index,))
    deployment = None
    if written.deployment is not None:
        deployment = document.validate(Deployment, written.deployment, (index, "deployment"))
    return Play(
        name=written.name or written.hosts,
        hosts=written.hosts,
        tasks=tuple(
            _task(document, index, position, task, actions)
            for position, task in enumerate(written.tasks)
        ),
        deployment=deployment,
        variables=written.vars,
    )


def _task(
    document: Document, play: int, index: int, data: dict[str, Any], actions: Mapping[str, Action]
) -> Task:
    place = (play, "tasks", index)
    named = [key for key in data if key not in _TASK_KEYS]
    for key in named:
        if key not in actions:
            raise document.error(
                f"unknown action or key {key!r}",
                (*place, key),
                hint=did_you_mean(key, [*actions, *_TASK_KEYS]),
            )
    if len(named) != 1:
        found = ", ".join(named) or "none"
        raise document.error(f"a task has exactly one action, not {len(named)} ({found})", place)
    action = actions[named[0]]
    arguments = data[named[0]] or {}
    if not isinstance(arguments, dict):
        raise document.error(f"the arguments of {action.name} are a mapping", (*place, action.name))
    _check_names(document, (*place, action.name), action, arguments)
    return Task(
        name=str(data.get("name") or action.name),
        action=action,
        arguments=arguments,
        where=document.where((*place, action.name)),
    )


def _check_names(
    document: Document, place: tuple[str | int, ...], action: Action, arguments: Mapping[str, Any]
) -> None:
    """The names are checked when the file is read, the values once their templates are filled."""
    known = list(action.arguments.model_fields)
    for name in arguments:
        if name not in known:
            hint = did_you_mean(name, known)
            raise document.error(
                f"{action.name} has no argument {name!r}", (*place, name), hint=hint
            )
    for name, field_info in action.arguments.model_fields.items():
        if field_info.is_required() and name not in arguments:
            raise document.error(f"{action.name} needs {name!r}", place)
