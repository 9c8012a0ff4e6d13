"""Reads a playbook: a list of plays, each a list of tasks. Everything is checked here, at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.deployment import Deployment
from orchestrator.documents import Document, Key, read_document
from orchestrator.errors import InputError, did_you_mean
from orchestrator.packaged import packaged_directory
from orchestrator.play.action import AnyAction
from orchestrator.play.ansible_keys import hints
from orchestrator.play.schema import (
    BlockKeys,
    HooksKeys,
    IncludeKeys,
    PlayKeys,
    SharedKeys,
    TaskKeys,
    key_names,
)
from orchestrator.play.tasks import (
    Block,
    Hooks,
    Play,
    Step,
    Task,
    leaves,
    split_by_level,
)
from orchestrator.play.templates import Condition, check_syntax, has_template

Place = tuple[Key, ...]


def packaged_playbook(name: str) -> Path:
    """The path of a playbook that ships with orc, such as `launch`."""
    return packaged_directory("playbooks") / f"{name}.yml"


def read_playbook(path: Path | str, actions: Mapping[str, AnyAction]) -> tuple[Play, ...]:
    """The plays of the playbook at `path`, with the files that it includes.

    Raises InputError with file, line and the nearest right name for an unknown key, action or
    argument, and for what can be seen to be wrong before anything is run.
    """
    document = read_document(path)
    if not isinstance(document.data, list) or not document.data:
        raise document.error("a playbook is a list of plays", hint="begin with `- name: ...`")
    return tuple(_play(document, index, data, actions) for index, data in enumerate(document.data))


@dataclass(frozen=True, slots=True)
class _Inherited:
    """What blocks, includes and the play give to the tasks inside."""

    when: tuple[Condition, ...] = ()
    tags: frozenset[str] = frozenset()
    variables: Mapping[str, Any] = field(default_factory=dict)
    ignore_errors: bool | str = False
    any_errors_fatal: bool = False

    def with_keys(self, keys: SharedKeys) -> _Inherited:
        ignore, fatal = keys.ignore_errors, keys.any_errors_fatal
        return _Inherited(
            when=(*self.when, *keys.when),
            tags=self.tags | frozenset(keys.tags),
            variables={**self.variables, **keys.vars},
            ignore_errors=self.ignore_errors if ignore is None else ignore,
            any_errors_fatal=self.any_errors_fatal if fatal is None else fatal,
        )


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the tasks of one file; an included file has a reader of its own."""

    document: Document
    actions: Mapping[str, AnyAction]
    files: tuple[Path, ...]  # this file, after those that include it

    def steps(self, data: Sequence[Any], place: Place, given: _Inherited) -> tuple[Step, ...]:
        return tuple(self._step(one, (*place, index), given) for index, one in enumerate(data))

    def _step(self, data: dict[str, Any], place: Place, given: _Inherited) -> Step:
        known = {*key_names(TaskKeys), *self.actions}
        _refuse_ansible_keys(self.document, [key for key in data if key not in known], place)
        if "block" in data:
            return self._block(data, place, given)
        if "include_tasks" in data:
            return self._include(data, place, given)
        return self._task(data, place, given)

    def _block(self, data: dict[str, Any], place: Place, given: _Inherited) -> Block:
        keys = self.document.validate(BlockKeys, data, place)
        self._check_templates(keys.vars, (*place, "vars"))
        inner = given.with_keys(keys)
        return Block(
            tasks=self.steps(keys.block, (*place, "block"), inner),
            rescue=self.steps(keys.rescue, (*place, "rescue"), inner),
            always=self.steps(keys.always, (*place, "always"), inner),
        )

    def _include(self, data: dict[str, Any], place: Place, given: _Inherited) -> Block:
        keys = self.document.validate(IncludeKeys, data, place)
        self._check_templates(keys.vars, (*place, "vars"))
        path = self.files[-1].parent / keys.include_tasks
        at: Place = (*place, "include_tasks")
        if has_template(keys.include_tasks):
            raise self.document.error(
                "the name of an included file is no template, since it is read at once",
                at,
                hint="include each file, with a `when:` that says for which hosts",
            )
        if path.resolve() in {file.resolve() for file in self.files}:
            raise self.document.error(f"{keys.include_tasks} includes itself", at)
        try:
            document = read_document(path)
        except InputError as error:
            if error.where != str(path):  # something is wrong inside it
                raise
            raise self.document.error(f"{path}: {error.what}", at) from None
        if not isinstance(document.data, list):
            raise document.error("an included file is a list of tasks")
        for index, one in enumerate(document.data):
            if not isinstance(one, dict):
                raise document.error("a task is a mapping", (index,))
        reader = _Reader(document, self.actions, (*self.files, path))
        return Block(reader.steps(document.data, (), given.with_keys(keys)))

    def _task(self, data: dict[str, Any], place: Place, given: _Inherited) -> Task:
        document = self.document
        known = key_names(TaskKeys)
        named = [key for key in data if key not in known]
        for key in named:
            if key not in self.actions:
                everything = [*self.actions, *known, "block", "include_tasks"]
                raise document.error(
                    f"unknown action or key {key!r}",
                    (*place, key),
                    hint=did_you_mean(str(key), everything),
                )
        if len(named) != 1:
            found = ", ".join(named) or "none"
            raise document.error(
                f"a task has exactly one action, not {len(named)} ({found})", place
            )
        action = self.actions[named[0]]
        written = {key: value for key, value in data.items() if key in known}
        keys = document.validate(TaskKeys, written, place)
        self._check_templates(keys.vars, (*place, "vars"))
        inner = given.with_keys(keys)
        return Task(
            name=keys.name or action.name,
            action=action,
            arguments=self._arguments(action, data[action.name], (*place, action.name)),
            where=document.where((*place, action.name)),
            directory=self.files[0].parent,
            when=inner.when,
            register=keys.register_,
            until=tuple(keys.until),
            retries=keys.retries,
            delay=keys.delay,
            timeout=keys.timeout,
            ignore_errors=inner.ignore_errors,
            failed_when=None if keys.failed_when is None else tuple(keys.failed_when),
            changed_when=None if keys.changed_when is None else tuple(keys.changed_when),
            tags=inner.tags,
            variables=inner.variables,
            any_errors_fatal=inner.any_errors_fatal,
        )

    def _arguments(self, action: AnyAction, data: Any, place: Place) -> Mapping[str, Any]:
        """The names are checked now, and the values too unless templates are among them."""
        if data is not None and not isinstance(data, dict):
            if action.free is None:
                raise self.document.error(f"the arguments of {action.name} are a mapping", place)
            data = {action.free: data}
        arguments = data or {}
        known = list(action.arguments.model_fields)
        for name in arguments:
            if name not in known:
                raise self.document.error(
                    f"{action.name} has no argument {name!r}",
                    (*place, name),
                    hint=did_you_mean(str(name), known) if known else "it takes none",
                )
        for name, one in action.arguments.model_fields.items():
            if one.is_required() and name not in arguments:
                raise self.document.error(f"{action.name} needs {name!r}", place)
        self._check_templates(arguments, place)
        if not has_template(arguments):
            self.document.validate(action.arguments, arguments, place)
        return arguments

    def _check_templates(self, value: Any, place: Place) -> None:
        wrong = check_syntax(value)
        if wrong:
            raise self.document.error(f"no template: {wrong}", place)


def _play(document: Document, index: int, data: Any, actions: Mapping[str, AnyAction]) -> Play:
    if isinstance(data, dict):
        unknown = [key for key in data if key not in key_names(PlayKeys)]
        _refuse_ansible_keys(document, unknown, (index,), in_play=True)
    keys = document.validate(PlayKeys, data, (index,))
    if keys.deployment is not None:
        _check_deployment(document, keys.deployment, (index, "deployment"))
    reader = _Reader(document, actions, (Path(document.path),))
    given = _Inherited(tags=frozenset(keys.tags))
    play = Play(
        name=keys.name or keys.hosts,
        hosts=keys.hosts,
        tasks=reader.steps(keys.tasks, (index, "tasks"), given),
        deployment=keys.deployment,
        variables=keys.vars,
        serial=tuple(keys.serial),
        max_fail_percentage=keys.max_fail_percentage,
        any_errors_fatal=keys.any_errors_fatal,
        hooks=_hooks(reader, keys.hooks, (index, "hooks"), given),
        where=document.where((index,)),
    )
    if play.serial:
        _check_batches(play)
    return play


def _refuse_ansible_keys(
    document: Document, unknown: Sequence[Any], place: Place, *, in_play: bool = False
) -> None:
    """All at once: a playbook that comes from Ansible has several."""
    found = hints(unknown, in_play=in_play)
    if not found:
        return
    of = "play" if in_play else "task"
    first, *others = found
    lines = [f"orc has no {first!r} of a {of}"]
    lines += [f"{document.where((*place, key))}: nor {key!r}" for key in others]
    several = len(set(found.values())) > 1
    said = [f"{key}: {hint}" if several else hint for key, hint in found.items()]
    hint = "\n       ".join(dict.fromkeys(said))
    raise document.error("\n".join(lines), (*place, first), hint=hint)


def _check_deployment(document: Document, data: Mapping[str, Any], place: Place) -> None:
    """Fields with templates are checked once these are filled in. Those of `env` are the plan's
    to fill in, for each host."""
    plain = {
        name: value for name, value in data.items() if name == "env" or not has_template(value)
    }
    document.validate(Deployment, {"recipe": "", **plain}, place)
    for name in data:
        if name not in Deployment.model_fields:  # such as one with a template behind it
            hint = did_you_mean(str(name), Deployment.model_fields)
            raise document.error(f"unknown key {name!r}", (*place, name), hint=hint)
    if "recipe" not in data:
        raise document.error("a deployment needs a recipe", place)


def _hooks(reader: _Reader, keys: HooksKeys, place: Place, given: _Inherited) -> Hooks:
    hooks = Hooks(
        before=reader.steps(keys.before, (*place, "before"), given),
        after=reader.steps(keys.after, (*place, "after"), given),
    )
    for task in leaves((*hooks.before, *hooks.after)):
        if task.action.level == "deployment":
            raise InputError(
                f"{task.action.name} acts on the whole deployment, so it cannot be a hook",
                where=task.where,
                why="hooks are run once for each replica",
                hint="put it into `tasks:`",
            )
    return hooks


def _check_batches(play: Play) -> None:
    """Batch by batch go the tasks between the first and the last that are for hosts or replicas."""
    _, body, _ = split_by_level(play.tasks)
    for task in leaves(body):
        if task.action.level == "deployment":
            raise InputError(
                f"{task.action.name} acts on the whole deployment, and stands between tasks that "
                "`serial` has done batch by batch",
                where=task.where,
                hint="put it before or after all of them, or into a play of its own",
            )
