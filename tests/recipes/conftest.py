"""Where the public catalogs, the site's renderings and its two documents are, if they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orchestrator.recipes.catalog import Catalog


def find_shared() -> Path | None:
    """`shared/` beside the repository, or where ORC_SHARED says."""
    named = os.environ.get("ORC_SHARED")
    if named:
        return Path(named)
    for parent in Path(__file__).resolve().parents:
        if (parent / "shared" / "design.md").is_file():
            return parent / "shared"
    return None


@pytest.fixture(scope="session")
def shared() -> Path:
    found = find_shared()
    if found is None:
        pytest.skip("the public catalogs (shared/) are not beside this repository")
    return found


@pytest.fixture(scope="session")
def own() -> Catalog:
    """The catalog that ships with orc."""
    return Catalog.load()


@pytest.fixture(autouse=True)
def _no_local_models(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What happens to lie in this machine's cache must not decide a test."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
