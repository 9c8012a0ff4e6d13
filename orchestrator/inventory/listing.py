"""An inventory as data and text to be shown; secrets are redacted in all of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from orchestrator.inventory.group_tree import ALL, UNGROUPED
from orchestrator.inventory.host import Host
from orchestrator.inventory.load import Inventory
from orchestrator.inventory.redaction import without_passwords
from orchestrator.secret import REDACTED, Secret


def ansible_list(inventory: Inventory) -> dict[str, Any]:
    """What `ansible-inventory --list` prints: groups, and the variables under `_meta`."""
    variables = {name: inventory.as_written(name) for name in inventory.hosts}
    listed: dict[str, Any] = {
        "_meta": {"hostvars": {name: values for name, values in variables.items() if values}}
    }
    for group in inventory.groups.values():
        shown: dict[str, Any] = {}
        if group.children:
            shown["children"] = list(group.children)
        if group.own_hosts and group.name != ALL:
            shown["hosts"] = list(group.own_hosts)
        if shown:
            listed[group.name] = shown
    return listed


def graph(inventory: Inventory) -> str:
    """What `ansible-inventory --graph` prints: the tree of groups and hosts."""
    return "\n".join(_graph_lines(inventory, ALL, 0))


def _graph_lines(inventory: Inventory, name: str, depth: int) -> Iterator[str]:
    yield f"{_indent(depth)}@{name}:"
    group = inventory.groups[name]
    for child in group.children:
        yield from _graph_lines(inventory, child, depth + 1)
    if name != ALL:
        for host in group.own_hosts:
            yield f"{_indent(depth + 1)}{host}"


def _indent(depth: int) -> str:
    return "  " + "|  " * (depth - 1) + "|--" if depth else ""


def graph_data(inventory: Inventory, name: str = ALL) -> dict[str, Any]:
    """The tree of groups and hosts as data."""
    group = inventory.groups[name]
    return {
        "group": name,
        "children": [graph_data(inventory, child) for child in group.children],
        "hosts": list(group.own_hosts) if name != ALL else [],
    }


def host_table(inventory: Inventory) -> str:
    """One line a host: where it is, what it is, and the groups it is in."""
    rows = [("HOST", "ADDRESS", "HARDWARE", "GPUS", "DATA ADDRESS", "RUNTIME", "GROUPS")]
    for host in inventory.hosts.values():
        settings = host.settings
        gpus = "all" if settings.gpus is None else ",".join(map(str, settings.gpus)) or "none"
        groups = [name for name in host.groups if name not in (ALL, UNGROUPED)]
        rows.append(
            (
                host.name,
                _login(host),
                settings.hardware or "-",
                gpus,
                settings.address or settings.interface or "-",
                settings.runtime,
                ",".join(groups) or "-",
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _login(host: Host) -> str:
    at = host.connection
    if at.kind == "local":
        return "local"
    address = f"[{at.address}]" if at.port and ":" in at.address else at.address
    user = f"{at.user}@" if at.user else ""
    return f"{user}{address}{f':{at.port}' if at.port else ''}"


def _shown(value: Any) -> Any:
    if isinstance(value, Secret):
        return REDACTED
    return [without_passwords(word) for word in value] if isinstance(value, tuple) else value


def host_records(inventory: Inventory) -> list[dict[str, Any]]:
    """Every host's connection and settings, checked; `env` with its templates left alone."""
    records = []
    for host in inventory.hosts.values():
        settings = host.settings.model_dump(mode="json", exclude={"env"})
        settings["env"] = inventory.as_written(host.name).get("orc_env", {})
        connection = {
            field.name: _shown(getattr(host.connection, field.name))
            for field in fields(host.connection)
        }
        records.append(
            {
                "name": host.name,
                "groups": list(host.groups),
                "connection": connection,
                "settings": settings,
            }
        )
    return records
