"""Reads a YAML inventory into the tree of groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orchestrator.documents import Document, Key
from orchestrator.errors import InputError, did_you_mean
from orchestrator.inventory.group_tree import GroupTree
from orchestrator.inventory.layers import document_layer, kind
from orchestrator.inventory.ranges import expand, split_port

PRIORITY = "ansible_group_priority"
_PARTS = ("hosts", "vars", "children")


def read_yaml(document: Document, tree: GroupTree) -> None:
    """Add the groups, hosts and variables of `document` to `tree`.

    Raises InputError with file and line for everything that is not an inventory.
    """
    if not isinstance(document.data, dict):
        raise document.error(
            f"an inventory is a mapping of groups, not {kind(document.data)}",
            hint="begin with `all:`, and below it `hosts:`, `children:` and `vars:`",
        )
    if "plugin" in document.data and isinstance(document.data["plugin"], str):
        raise document.error(
            f"this configures Ansible's inventory plugin {document.data['plugin']!r}, "
            "and inventory plugins are not run here",
            ["plugin"],
            hint=f"save what it finds: ansible-inventory -i {document.path} --list -y > hosts.yml",
        )
    for name, body in document.data.items():
        _read_group(document, tree, name, body, (name,))


def _read_group(
    document: Document, tree: GroupTree, name: Any, body: Any, path: tuple[Key, ...]
) -> None:
    if not isinstance(name, str):
        raise document.error(f"a group's name is text, not {name!r}", path, hint="put it in quotes")
    group = tree.add_group(name)
    if body is None:
        return
    if not isinstance(body, dict):
        raise document.error(
            f"group {name!r} is a mapping with hosts, children or vars, not {kind(body)}", path
        )
    for key in body:
        if key not in _PARTS:
            raise document.error(
                f"group {name!r} has an unknown key {key!r}; a group has hosts, children and vars",
                (*path, key),
                hint=_misplaced(str(key), path),
            )
    variables = _part(document, body, "vars", path)
    if variables:
        layer = document_layer(document, (*path, "vars"), variables)
        if PRIORITY in layer.values:
            group.priority = group_priority(layer.values[PRIORITY], layer.place([PRIORITY]))
            layer = document_layer(
                document, (*path, "vars"), {k: v for k, v in variables.items() if k != PRIORITY}
            )
        group.layers.append(layer)
    for child, child_body in _part(document, body, "children", path).items():
        child_path = (*path, "children", child)
        if not isinstance(child, str):
            raise document.error(f"a group's name is text, not {child!r}", child_path)
        try:
            tree.add_child(name, child)
        except ValueError as error:
            raise document.error(
                str(error), child_path, hint="take one of the two out of the other's children"
            ) from None
        _read_group(document, tree, child, child_body, child_path)
    for pattern, values in _part(document, body, "hosts", path).items():
        _read_hosts(document, tree, name, pattern, values, (*path, "hosts", pattern))


def _misplaced(key: str, path: Sequence[Key]) -> str:
    if key.startswith(("orc_", "ansible_")):
        return f"put {key} below `vars:`"
    near = did_you_mean(key, _PARTS)
    if near.startswith("did"):
        return near
    return f"a group inside {path[-1]!r} stands below `children:`, a host below `hosts:`"


def _part(
    document: Document, body: dict[Any, Any], part: str, path: tuple[Key, ...]
) -> dict[Any, Any]:
    value = body.get(part)
    if value is None:
        return {}
    if isinstance(value, str) and part != "vars":
        return {value: None}
    if not isinstance(value, dict):
        example = {"hosts": "node01:", "children": "rack1:", "vars": "ansible_user: ops"}[part]
        raise document.error(
            f"`{part}:` of group {path[-1]!r} is a mapping, not {kind(value)}",
            (*path, part),
            hint=f"write each as a key, with a colon and no hyphen: `{example}`",
        )
    return value


def _read_hosts(
    document: Document,
    tree: GroupTree,
    group: str,
    pattern: Any,
    values: Any,
    path: tuple[Key, ...],
) -> None:
    if not isinstance(pattern, str):
        raise document.error(
            f"a host's name is text, not {pattern!r}", path, hint="put it into quotes"
        )
    try:
        names, port = host_names(pattern)
    except ValueError as error:
        raise document.error(str(error), path) from None
    layers = []
    if port is not None:
        layers.append(document_layer(document, path, {"ansible_port": port}))
    if values is not None:
        layers.append(document_layer(document, path, values))
    for name in names:
        tree.add_host(name, group)
        tree.host_layers[name].extend(layers)


def host_names(pattern: str) -> tuple[list[str], int | None]:
    """The names that `pattern` stands for, and their SSH port if it gives one.

    Raises ValueError when it stands for none.
    """
    pattern, port = split_port(pattern)
    names = expand(pattern)
    # A pattern could not mean a name that begins as an operator or an option does.
    if not all(names) or pattern[0] in "-!&~@" or not pattern.isprintable() or " " in pattern:
        raise ValueError(f"{pattern!r} is no host name")
    return names, port


def group_priority(value: Any, where: str) -> int:
    """The value of ansible_group_priority. Raises InputError when it is no whole number."""
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{PRIORITY} is a whole number, not {value!r}", where=where) from None
