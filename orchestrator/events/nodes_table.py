"""The live table of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from orchestrator.planning.service import group_name

_STYLES = {"healthy": "green", "failed": "red", "running": "green"}


def nodes_table(data: Mapping[str, Any]) -> RenderableType:
    """The data of a `nodes` event as a table, with a line for each replica below it."""
    table = Table(box=None, pad_edge=False)
    for column in ("host", "replica", "rank", "state", "up"):
        table.add_column(column)
    for node in data["nodes"]:
        up = "" if node["up_seconds"] is None else f"{node['up_seconds']} s"
        state = Text(node["state"], style=_STYLES.get(node["state"], ""))
        table.add_row(node["host"], str(node["replica"]), str(node["rank"]), state, up)
    lines: list[RenderableType] = [table]
    for replica in data["replicas"]:
        style = _STYLES.get(replica["state"], "yellow")
        text = f"{group_name(replica['replica'])}: {replica['state']}"
        if replica["detail"]:
            text += f" ({replica['detail']})"
        lines.append(Text(text, style=style, overflow="ellipsis", no_wrap=True))
        if replica["last_line"]:
            last = f"  {replica['last_line']}"
            lines.append(Text(last, style="dim", overflow="ellipsis", no_wrap=True))
    lines.append(Text(f"{data['seconds']:.0f} s of {data['timeout']:.0f} s"))
    return Group(*lines)
