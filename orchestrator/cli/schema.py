"""`orc schema`: JSON Schema of the files that a user writes, for editors."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import typer

Kind = Literal["inventory", "recipe", "playbook"]


def schema(
    kind: Annotated[Kind, typer.Argument(help="Which file.")],
) -> int:
    """Print the JSON Schema of an inventory, a recipe or a playbook.

    An editor with yaml-language-server completes and checks a file whose first line is
    `# yaml-language-server: $schema=playbook.schema.json`.
    """
    typer.echo(json.dumps(_schema(kind), indent=2))
    return 0


def _schema(kind: Kind) -> dict[str, Any]:
    if kind == "playbook":
        from orchestrator.play.actions.registry import ACTIONS
        from orchestrator.play.json_schema import playbook_schema

        return playbook_schema(ACTIONS)
    if kind == "inventory":
        from orchestrator.inventory.json_schema import inventory_schema

        return inventory_schema()
    from orchestrator.recipes.json_schema import recipe_schema

    return recipe_schema()
