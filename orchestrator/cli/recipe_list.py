"""The list of recipes as text. It imports nothing heavy, since listing has to be fast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows as left-aligned columns, two spaces apart."""
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))] if rows else []
    lines = ("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def list_text(entries: Mapping[str, Mapping[str, Any]]) -> str:
    """One line a recipe: name, parameters, kind, tasks, and the variants with their memory."""
    rows = [["RECIPE", "SIZE", "KIND", "TASKS", "VARIANTS (GB)"]]
    for name, entry in entries.items():
        variants = (
            f"{variant} {memory:g}" if (memory := entry["variants"][variant]["memory"]) else variant
            for variant in entry["fitting"]
        )
        rows.append(
            [
                name,
                entry["parameters"] or "-",
                entry["architecture"],
                ",".join(entry["tasks"]),
                ", ".join(variants),
            ]
        )
    return columns(rows)
