"""What the shell completes for options whose values a catalog knows.

A completion never fails: what cannot be read completes to nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.errors import OrcError

if TYPE_CHECKING:
    from orchestrator.recipes.catalog import Catalog


def _complete(names: Callable[[Catalog], Iterable[str]]) -> Callable[[str], list[str]]:
    """The names of the packaged catalog and those of ORC_RECIPES that begin as what is typed."""

    def complete(incomplete: str) -> list[str]:
        from orchestrator.recipes.catalog import Catalog

        own = [Path(part) for part in os.environ.get("ORC_RECIPES", "").split(os.pathsep) if part]
        try:
            return sorted(name for name in names(Catalog.load(own)) if name.startswith(incomplete))
        except OrcError:
            return []

    return complete


recipe_names = _complete(lambda catalog: catalog.names())
strategy_names = _complete(lambda catalog: catalog.strategies)
hardware_names = _complete(lambda catalog: catalog.profiles)
