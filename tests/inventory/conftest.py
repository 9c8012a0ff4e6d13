"""A directory to write inventory files into, and a loaded inventory of them."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator import Inventory

Load = Callable[..., Inventory]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Loads an inventory out of texts: the main one, and further files by their name."""

    def write_and_load(
        text: str, name: str = "hosts.yml", files: dict[str, str] | None = None
    ) -> Inventory:
        for path, content in {name: text, **(files or {})}.items():
            target = tmp_path / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(textwrap.dedent(content).lstrip("\n"))
        return Inventory.load(tmp_path / name)

    return write_and_load
