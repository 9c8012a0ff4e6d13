"""Where the recipes and playbooks that ship with `orc` are: in the wheel, or in a checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parent


def packaged_directory(name: str) -> Path:
    """The directory `name` (`recipes` or `playbooks`), whether installed or in a checkout."""
    installed = _PACKAGE / "_packaged" / name
    return installed if installed.is_dir() else _PACKAGE.parent / name
