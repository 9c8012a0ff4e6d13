"""What the shell completes: names of the catalog, the inventory, and deployments; no host is asked.

A completion never fails: what cannot be read completes to nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from orchestrator.errors import OrcError

if TYPE_CHECKING:
    from orchestrator.recipes.catalog import Catalog


def _complete(names: Callable[[Catalog], Iterable[str]]) -> Callable[[str], list[str]]:
    """The names of the packaged catalog and those of ORC_RECIPES that begin as what is typed."""

    def complete(incomplete: str) -> list[str]:
        from orchestrator.recipes.catalog import Catalog

        own = _paths(os.environ.get("ORC_RECIPES"))
        try:
            return sorted(name for name in names(Catalog.load(own)) if name.startswith(incomplete))
        except OrcError:
            return []

    return complete


recipe_names = _complete(lambda catalog: catalog.names())
strategy_names = _complete(lambda catalog: catalog.strategies)
hardware_names = _complete(lambda catalog: catalog.profiles)


def host_names(context: typer.Context, incomplete: str) -> list[str]:
    """Hosts and groups of the inventory that is given; of a pattern its last part is completed."""
    from orchestrator.inventory.load import Inventory

    paths = context.params.get("inventory") or _paths(os.environ.get("ORC_INVENTORY"))
    before, last = _parted(incomplete)
    try:
        inventory = Inventory.load(paths)
        names = [*inventory.hosts, *inventory.groups]
    except OrcError:
        return []
    return sorted(before + name for name in dict.fromkeys(names) if name.startswith(last))


def deployment_names(incomplete: str) -> list[str]:
    """The deployments of which something was written down on this machine."""
    from orchestrator.cli.known_deployments import known_deployments

    return [name for name in known_deployments() if name.startswith(incomplete)]


def _parted(pattern: str) -> tuple[str, str]:
    """`rack1:&h2` -> (`rack1:&`, `h2`)."""
    end = max(pattern.rfind(mark) for mark in ":,&!") + 1
    return pattern[:end], pattern[end:]


def _paths(text: str | None) -> list[Path]:
    return [Path(part) for part in (text or "").split(os.pathsep) if part]
