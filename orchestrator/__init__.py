"""Deploys vLLM on many nodes over SSH. The stable Python interface is what stands here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestrator.recipes.catalog import Catalog

__all__ = ["Catalog", "__version__"]
__version__ = "0.1.0"

# Loaded when first asked for, so that importing the package stays fast (PEP 562).
_EXPORTS = {
    "Catalog": "orchestrator.recipes.catalog",
}


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(import_module(_EXPORTS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
