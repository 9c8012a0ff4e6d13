"""The JSON Schema of a YAML inventory: groups as Ansible has them, and the `orc_*` variables."""

from __future__ import annotations

from typing import Any

from orchestrator.inventory.host import HostSettings
from orchestrator.inventory.settings import PREFIX

_TEMPLATE = {"type": "string", "pattern": r"\{[{%]"}


def inventory_schema() -> dict[str, Any]:
    """A variable that begins with `orc_` must be one that there is; others may be anything."""
    settings = HostSettings.model_json_schema()
    variables = {
        "type": ["object", "null"],
        "properties": {
            PREFIX + name: {"anyOf": [one, _TEMPLATE], "title": PREFIX + name}
            for name, one in settings["properties"].items()
        },
        "patternProperties": {
            f"^{PREFIX}(?!({'|'.join(settings['properties'])})$)": {"not": {}},
        },
    }
    group = {
        "type": ["object", "null"],
        "additionalProperties": False,
        "properties": {
            "hosts": {
                "type": ["object", "null"],
                "additionalProperties": {"$ref": "#/$defs/variables"},
            },
            "children": {
                "type": ["object", "null"],
                "additionalProperties": {"$ref": "#/$defs/group"},
            },
            "vars": {"$ref": "#/$defs/variables"},
        },
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Inventory of orc and Ansible",
        "type": "object",
        "additionalProperties": {"$ref": "#/$defs/group"},
        "$defs": {**settings.get("$defs", {}), "variables": variables, "group": group},
    }
