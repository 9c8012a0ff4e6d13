"""Recipes made for one test."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml

from orchestrator.deployment import Deployment
from orchestrator.recipes.catalog import Catalog
from orchestrator.recipes.resolved import ResolvedRecipe

BASE: dict[str, Any] = {
    "meta": {"title": "Model", "tasks": ["text"]},
    "model": {"model_id": "org/model", "architecture": "moe"},
    "variants": {"default": {"precision": "bf16", "vram_minimum_gb": 300}},
    "compatible_strategies": ["single_node_tp", "multi_node_tp"],
}


def recipe_data(**changes: Any) -> dict[str, Any]:
    """The plain recipe with some of its keys merged or replaced."""
    data = copy.deepcopy(BASE)
    for key, value in changes.items():
        if isinstance(value, dict) and isinstance(data.get(key), dict):
            data[key] |= value
        else:
            data[key] = value
    return data


def catalog_with(directory: Path, data: dict[str, Any] | str) -> Catalog:
    """A catalog whose recipe `org/model` is `data` (or this text)."""
    file = directory / "models" / "org" / "model.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(data if isinstance(data, str) else yaml.safe_dump(data, sort_keys=False))
    return Catalog.load(directory)


def resolved(
    directory: Path, data: dict[str, Any], hardware: str = "h200", **selection: Any
) -> ResolvedRecipe:
    """`data` resolved with this selection."""
    catalog = catalog_with(directory, data)
    return catalog.resolve(Deployment(recipe="org/model", **selection), hardware)


def arguments(recipe: ResolvedRecipe) -> list[str]:
    return recipe.argv()[3:]
