"""Reads an INI inventory into the tree of groups."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from orchestrator.documents import Key
from orchestrator.errors import InputError, did_you_mean
from orchestrator.inventory.group_tree import UNGROUPED, GroupTree
from orchestrator.inventory.layers import Layer
from orchestrator.inventory.yaml_source import PRIORITY, group_priority, host_names
from orchestrator.yaml_loader import is_too_large

Part = Literal["hosts", "children", "vars"]

_SECTION = re.compile(r"\[([^:\]\s]+)(?::([^\]\s]+))?\]\s*(?:#.*)?")
_GROUP_LINE = re.compile(r"([^\s#]+)\s*(?:#.*)?")


@dataclass(slots=True)
class _Lines:
    """The values of a section, and the line of each."""

    values: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)


class _Reader:
    """Where the reading of one file stands."""

    def __init__(self, path: Path, tree: GroupTree) -> None:
        self.path, self.tree = path, tree
        self.line = 0
        self.group = UNGROUPED
        self.part: Part = "hosts"
        self.declared = set(tree.groups)
        self.variables: dict[str, _Lines] = {}
        # A child may be named before its own section stands; it joins when that is reached.
        self.awaited: dict[str, list[tuple[str, int]]] = {}

    def error(self, what: str, line: int | None = None, **more: str | None) -> InputError:
        return InputError(what, where=f"{self.path}:{line or self.line}", **more)

    def read(self, text: str) -> None:
        for self.line, line in enumerate(text.splitlines(), start=1):
            stripped = line.strip()
            if not stripped or stripped[0] in "#;":
                continue
            if stripped.startswith("[") and (found := _SECTION.fullmatch(stripped)):
                self._section(found[1], found[2])
            elif stripped.startswith("[") and not _starts_with_range(stripped):
                raise self.error(
                    f"{stripped} is no section",
                    hint="a section is [group], [group:children] or "
                    "[group:vars] on a line of its own",
                )
            elif self.part == "vars":
                self._variable(stripped)
            elif self.part == "children":
                self._child(stripped)
            else:
                self._hosts(stripped)
        self._finish()

    def _section(self, group: str, part: str | None) -> None:
        if part not in (None, "hosts", "children", "vars"):
            raise self.error(
                f"section [{group}:{part}] is of an unknown kind",
                hint="a section is [group], [group:children] or [group:vars]",
            )
        self.group = group
        self.part = "children" if part == "children" else "vars" if part == "vars" else "hosts"
        if self.part == "vars":
            self.variables.setdefault(group, _Lines())
            self.variables[group].lines.setdefault("", self.line)
            return
        self.declared.add(group)
        self.tree.add_group(group)
        for parent, line in self.awaited.pop(group, []):
            self._join(parent, group, line)

    def _variable(self, text: str) -> None:
        name, equals, value = text.partition("=")
        if not equals:
            raise self.error(
                f"[{self.group}:vars] holds one name=value a line, not {name.split()[0]!r}"
            )
        section = self.variables[self.group]
        section.values[name.strip()] = literal(value.strip())
        section.lines[name.strip()] = self.line

    def _child(self, text: str) -> None:
        found = _GROUP_LINE.fullmatch(text)
        if not found:
            raise self.error(f"[{self.group}:children] holds one group's name a line, not {text!r}")
        if found[1] in self.declared:
            self._join(self.group, found[1], self.line)
        else:
            self.awaited.setdefault(found[1], []).append((self.group, self.line))

    def _join(self, parent: str, child: str, line: int) -> None:
        try:
            self.tree.add_child(parent, child)
        except ValueError as error:
            raise self.error(str(error), line) from None

    def _hosts(self, text: str) -> None:
        try:
            pattern, *assignments = shlex.split(text, comments=True)
            names, port = host_names(pattern)
        except ValueError as error:
            raise self.error(f"{_without_values(text)}: {error}") from None
        values: dict[str, Any] = {}
        if port is not None:
            values["ansible_port"] = port
        for number, assignment in enumerate(assignments, start=1):
            name, equals, value = assignment.partition("=")
            if not equals or not name:
                # The word itself may be half of a password with a space in it.
                raise self.error(
                    f"word {number} after host {pattern} is no name=value",
                    hint="put a value with spaces into quotes; a comment begins with #",
                )
            values[name] = literal(value)
        layer = self._layer(values, dict.fromkeys(values, self.line), self.line)
        for name in names:
            self.tree.add_host(name, self.group)
            if values:
                self.tree.host_layers[name].append(layer)

    def _layer(self, values: dict[str, Any], lines: dict[str, int], first: int) -> Layer:
        def place(keys: Sequence[Key]) -> str:
            return f"{self.path}:{lines.get(str(keys[0]), first) if keys else first}"

        return Layer(values=values, place=place, file=self.path)

    def _finish(self) -> None:
        for child, parents in self.awaited.items():
            parent, line = parents[0]
            raise self.error(
                f"[{parent}:children] names {child!r}, and there is no section [{child}]",
                line,
                hint=did_you_mean(child, self.declared - {parent}),
            )
        for group, section in self.variables.items():
            first = section.lines.pop("")
            if group not in self.declared:
                raise self.error(
                    f"[{group}:vars] is of a group that has no section [{group}]",
                    first,
                    hint=did_you_mean(group, self.declared),
                )
            layer = self._layer(section.values, section.lines, first)
            if PRIORITY in section.values:
                where = layer.place([PRIORITY])
                self.tree.groups[group].priority = group_priority(
                    section.values.pop(PRIORITY), where
                )
            self.tree.groups[group].layers.append(layer)


def _starts_with_range(text: str) -> bool:
    """`[a:c]node` and `[2001:db8::1]:22` are hosts, not sections."""
    return re.match(r"\[[^\]]*:[^\]]*\][^\s#]", text) is not None


def _without_values(text: str) -> str:
    """A line as far as it may be shown: a value may be a password."""
    return text.split("=", 1)[0].strip()


def read_ini(text: str, path: Path, tree: GroupTree) -> None:
    """Add the groups, hosts and variables of the INI inventory `text` to `tree`.

    Raises InputError with file and line for everything that is not an inventory.
    """
    _Reader(path, tree).read(text)


def literal(text: str) -> Any:
    """A value of an INI inventory: a Python literal if it is one, as in Ansible, else text.

    `1` is a number, `True` a boolean, `[1, 2]` and `0,1` are lists, `01` and `yes` are text.
    """
    try:
        value = ast.literal_eval(text)
        return text if value is ... else _plain(value)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(part) for part in value]
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if is_too_large(value):
        raise ValueError("a number too large to be one")
    if value is None or isinstance(value, str | int | float):
        return value
    return str(value)
