"""Deploys vLLM on many nodes over SSH. The stable Python interface is what stands here."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestrator.inventory.inventory import Inventory

__all__ = ["Inventory", "__version__"]
__version__ = "0.1.0"

# Imported when it is first used, so that `orc --help` is fast.
_MODULES = {
    "Inventory": "orchestrator.inventory.inventory",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
