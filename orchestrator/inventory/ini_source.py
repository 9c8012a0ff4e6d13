"""Reads an INI inventory into the tree of groups."""

from __future__ import annotations

from pathlib import Path

from orchestrator.errors import InputError
from orchestrator.inventory.group_tree import GroupTree


def read_ini(text: str, path: Path, tree: GroupTree) -> None:
    raise InputError("not a YAML inventory", where=str(path))
