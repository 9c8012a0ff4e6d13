"""Deploys vLLM on many nodes over SSH. The stable Python interface is what stands here."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from orchestrator.version import __version__

if TYPE_CHECKING:
    from orchestrator.deployment import Deployment
    from orchestrator.inventory.load import Inventory
    from orchestrator.planning.build import plan
    from orchestrator.planning.plan import Plan
    from orchestrator.recipes.catalog import Catalog

__all__ = ["Catalog", "Deployment", "Inventory", "Plan", "__version__", "plan"]

# Loaded when first asked for, so that `orc --help` and completion are fast (PEP 562).
_MODULES = {
    "Catalog": "orchestrator.recipes.catalog",
    "Deployment": "orchestrator.deployment",
    "Inventory": "orchestrator.inventory.load",
    "Plan": "orchestrator.planning.plan",
    "plan": "orchestrator.planning.build",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
