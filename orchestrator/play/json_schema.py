"""The JSON Schema of a playbook, made of the models that read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from orchestrator.deployment import Deployment
from orchestrator.play.action import AnyAction
from orchestrator.play.schema import BlockKeys, HooksKeys, IncludeKeys, PlayKeys, TaskKeys

_TEMPLATE = {"type": "string", "pattern": r"\{[{%]"}
_STEP = {"$ref": "#/$defs/Step"}


def playbook_schema(actions: Mapping[str, AnyAction]) -> dict[str, Any]:
    """A list of plays. Every argument of an action may also be a template."""
    models: list[type[BaseModel]] = [
        *(PlayKeys, HooksKeys, TaskKeys),
        *(BlockKeys, IncludeKeys, Deployment),
    ]
    _, schema = models_json_schema([(model, "validation") for model in models])
    parts: dict[str, Any] = schema["$defs"]
    play, hooks = parts.pop("PlayKeys"), parts.pop("HooksKeys")
    task, block, include = (parts.pop(name) for name in ("TaskKeys", "BlockKeys", "IncludeKeys"))
    for place in (play["properties"], hooks["properties"], block["properties"]):
        for name in ("tasks", "before", "after", "block", "rescue", "always"):
            if name in place:
                place[name] = {"type": "array", "items": _STEP}
    play["properties"]["hooks"] = hooks
    play["properties"]["deployment"] = {"$ref": "#/$defs/Deployment"}
    arguments = {name: _arguments(action) for name, action in actions.items()}
    for one in arguments.values():
        parts |= one.pop("$defs", {})
    task["properties"] |= {
        name: _values(action, arguments[name]) for name, action in actions.items()
    }
    task["oneOf"] = [{"required": [name]} for name in actions]
    parts["Task"], parts["Block"], parts["Include"] = task, block, include
    parts["Step"] = {
        "if": {"required": ["block"]},
        "then": {"$ref": "#/$defs/Block"},
        "else": {
            "if": {"required": ["include_tasks"]},
            "then": {"$ref": "#/$defs/Include"},
            "else": {"$ref": "#/$defs/Task"},
        },
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Playbook of orc",
        "type": "array",
        "minItems": 1,
        "items": play,
        "$defs": parts,
    }


def _arguments(action: AnyAction) -> dict[str, Any]:
    schema = action.arguments.model_json_schema(ref_template="#/$defs/{model}")
    own: dict[str, Any] = schema.get("properties", {})
    return {
        "type": ["object", "null"] if not schema.get("required") else "object",
        "description": schema.get("description", ""),
        "additionalProperties": False,
        "required": schema.get("required", []),
        "properties": {name: {"anyOf": [one, _TEMPLATE]} for name, one in own.items()},
        "$defs": schema.get("$defs", {}),
    }


def _values(action: AnyAction, arguments: dict[str, Any]) -> dict[str, Any]:
    """What may stand behind an action's name: its arguments, or a value where it takes one."""
    if action.free is None:
        return arguments
    lone = arguments["properties"][action.free]
    return {"anyOf": [arguments, lone], "description": arguments["description"]}
