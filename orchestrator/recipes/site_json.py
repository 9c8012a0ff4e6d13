"""The public site's JSON of a recipe, as a recipe of the schema.

The site leaves out what its own renderings were made from (`compatible_strategies`,
`strategy_overrides`) and puts in what follows from the rest (`recommended_command`, links). The
strategies are read back from the links to their renderings.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orchestrator.documents import Document, check_text, read_text
from orchestrator.errors import InputError
from orchestrator.yaml_loader import parse_json

_NEEDED = ("hf_id", "meta", "model", "variants")
_RENDERED = ("hf_id", "recommended_command", "source")


def read_site_json(path: Path) -> tuple[str, Document, dict[str, Any]]:
    """The recipe's name (`org/repo`), the document, and its data in the schema's form.

    Raises InputError when the file cannot be read, is not JSON, or is JSON of another kind.
    """
    text = read_text(path)
    try:
        data = parse_json(text)
    except json.JSONDecodeError as error:
        where = f"{path}:{error.lineno}:{error.colno}"
        raise InputError(f"not JSON: {error.msg}", where=where) from None
    except (ValueError, RecursionError) as error:  # a number too long, nested too deep
        raise InputError(f"not JSON that can be read: {error}", where=str(path)) from None
    check_text(json.dumps(data, ensure_ascii=False), str(path))
    document = Document(path=str(path), text=text, data=data)
    missing = [key for key in _NEEDED if not isinstance(data, Mapping) or key not in data]
    if missing:
        found = ", ".join(list(data)[:8]) if isinstance(data, Mapping) else type(data).__name__
        raise InputError(
            "not a recipe: it has no " + ", ".join(missing),
            where=str(path),
            why=f"it holds {found}",
            hint="a recipe of recipes.vllm.ai in JSON has hf_id, meta, recommended_command, model, "
            "features and variants: fetch https://recipes.vllm.ai/<org>/<repo>.json",
        )
    return str(data["hf_id"]), document, _as_schema(data)


def _as_schema(data: Mapping[str, Any]) -> dict[str, Any]:
    recipe = {key: value for key, value in data.items() if key not in _RENDERED}
    command = data.get("recommended_command")
    command = command if isinstance(command, Mapping) else {}
    recipe["meta"] = _meta(data["meta"], command)
    recipe["model"], extras = _model(data["model"])
    if extras and "dependencies" not in recipe:
        recipe["dependencies"] = extras
    if isinstance(data["variants"], Mapping):
        recipe["variants"] = {
            name: {key: value for key, value in variant.items() if key != "json"}
            if isinstance(variant, Mapping)
            else variant
            for name, variant in data["variants"].items()
        }
    if "compatible_strategies" not in recipe:
        recipe["compatible_strategies"] = _strategies(command)
    if command.get("strategy") in recipe["compatible_strategies"]:
        recipe.setdefault("default_strategy", command["strategy"])
    return recipe


def _meta(meta: Any, command: Mapping[str, Any]) -> Any:
    """Without the link from a variant's own page to its parent; with the default hardware."""
    if not isinstance(meta, Mapping):
        return meta
    kept = {key: value for key, value in meta.items() if key not in {"derived_from", "variant"}}
    if command.get("hardware"):
        kept.setdefault("default_hardware", command["hardware"])
    return kept


def _model(model: Any) -> tuple[Any, Any]:
    """The model without the dependencies that the site puts under `install`, and those."""
    install = model.get("install") if isinstance(model, Mapping) else None
    if not isinstance(install, Mapping) or "extras" not in install:
        return model, None
    rest = {key: value for key, value in install.items() if key != "extras"}
    return {**model, "install": rest}, install["extras"]


def _strategies(command: Mapping[str, Any]) -> list[str]:
    alternatives = command.get("alternatives")
    names = [command.get("strategy"), *(alternatives if isinstance(alternatives, Mapping) else ())]
    return [name for name in names if isinstance(name, str) and not name.startswith("kv_store_")]
