"""The JSON Schema of a recipe."""

from __future__ import annotations

from typing import Any

from orchestrator.recipes.schema import Recipe


def recipe_schema() -> dict[str, Any]:
    """The form alone: `orc recipes validate` checks also what a recipe refers to."""
    schema = Recipe.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Recipe"}
