"""A recipe in a file: YAML in the schema, the site's JSON, or the site's page for tools."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.documents import Document, read_document
from orchestrator.errors import InputError
from orchestrator.recipes.schema import Recipe
from orchestrator.recipes.site_json import read_site_json
from orchestrator.recipes.site_page import PageConfiguration, read_site_page

# In a catalog the first of these that exists counts.
SUFFIXES = (".yaml", ".yml", ".json", ".md")


@dataclass(frozen=True, slots=True)
class RecipeFile:
    """A recipe with its name (`org/repo`) and the document that it was read from.

    `page` is the one configuration that the site's page holds; None for the other forms, which
    hold them all.
    """

    name: str
    recipe: Recipe
    document: Document
    page: PageConfiguration | None = None


@dataclass(frozen=True, slots=True)
class RecipeText:
    """A recipe file that was read and parsed, and not checked yet. `data` has the schema's form."""

    name: str
    document: Document
    data: Any
    page: PageConfiguration | None = None

    def checked(self) -> RecipeFile:
        """The recipe. Raises InputError naming file, line and path of each fault."""
        recipe = self.document.validate(Recipe, self.data)
        return RecipeFile(self.name, recipe, self.document, self.page)


def read_recipe(path: Path, name: str | None = None) -> RecipeFile:
    """The recipe in a file, by the form that its suffix names; `name` is what to call it.

    Raises InputError naming file, line and path of each fault.
    """
    return parse_recipe(path, name).checked()


def parse_recipe(path: Path, name: str | None = None) -> RecipeText:
    """What `read_recipe` checks. Raises InputError for what is no recipe by its form."""
    if path.suffix == ".json":
        own_name, document, data = read_site_json(path)
        return RecipeText(name or own_name, document, data)
    if path.suffix == ".md":
        own_name, document, data, page = read_site_page(path)
        return RecipeText(name or own_name, document, data, page)
    if path.suffix not in SUFFIXES:
        raise InputError(
            "not a recipe by its name", where=str(path), hint="a recipe is .yaml, .json or .md"
        )
    document = read_document(path)
    return RecipeText(name or name_by_place(path), document, document.data)


def recipe_files(directory: Path) -> dict[str, Path]:
    """The recipe files of one catalog directory by recipe name."""
    models = directory / "models"
    return {
        f"{path.parent.name}/{path.name.removesuffix(suffix)}": path
        for suffix in reversed(SUFFIXES)
        for path in sorted(models.glob(f"*/*{suffix}"))
    }


def name_by_place(path: Path) -> str:
    """`org/repo` for a file in a catalog's layout, else the file's own name."""
    parts = path.resolve().parts
    in_catalog = len(parts) > 2 and parts[-3] == "models"
    return f"{parts[-2]}/{path.stem}" if in_catalog else path.stem
