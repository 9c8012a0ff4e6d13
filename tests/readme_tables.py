"""The tables of the README, made of the models: `python -m tests.readme_tables` writes them.

A test compares them, so that neither can change without the other.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from orchestrator.deployment import Deployment
from orchestrator.events.schema import KINDS
from orchestrator.inventory.host import HostSettings
from orchestrator.play.actions.registry import ACTIONS

README = Path(__file__).parents[1] / "README.md"
MARKED = re.compile(r"(<!-- table: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def rows(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, FieldInfo]]:
    """Every field with the name that a user writes; those of a part after the part itself."""
    for name, field in model.model_fields.items():
        yield prefix + name, field
        for inner in (field.annotation, *getattr(field.annotation, "__args__", ())):
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                yield from rows(inner, f"{prefix}{name}.")


def table(model: type[BaseModel], prefix: str = "") -> str:
    lines = ["| name | default | meaning |", "|---|---|---|"]
    for name, field in rows(model, prefix):
        assert field.description, f"{name} has no description"
        lines.append(f"| `{name}` | {default(field)} | {field.description} |")
    return "\n".join(lines) + "\n"


def default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.default
    if isinstance(value, BaseModel) or value in (None, ()) or field.default_factory:
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


ACTS_ON = {
    "host": "each host",
    "batch": "the batch",
    "replica": "replicas",
    "deployment": "the deployment",
}


def action_table() -> str:
    """Every action, by what it acts on and in the order of the registry."""
    lines = ["| task | acts on | what it does | arguments |", "|---|---|---|---|"]
    for action in sorted(ACTIONS.values(), key=lambda one: list(ACTS_ON).index(one.level)):
        says = (sys.modules[action.perform.__module__].__doc__ or "").partition("\n\n")[0]
        text = " ".join(says.split()).rstrip(".")
        arguments = ", ".join(f"`{name}`" for name in action.arguments.model_fields)
        lines.append(f"| `{action.name}` | {ACTS_ON[action.level]} | {text} | {arguments} |")
    return "\n".join(lines) + "\n"


def event_kinds() -> str:
    lines = ["| kind | what it says | its `data` |", "|---|---|---|"]
    for model in KINDS:
        names = ", ".join(f"`{name}`" for name in get_args(model.model_fields["kind"].annotation))
        meaning = " ".join((model.__doc__ or "").split())
        lines.append(f"| {names} | {meaning} | {data_fields(model)} |")
    return "\n".join(lines) + "\n"


def data_fields(model: type[BaseModel]) -> str:
    field = model.model_fields.get("data")
    if field is None:
        return "none"
    inner = field.annotation
    if isinstance(inner, type) and issubclass(inner, BaseModel):
        more = ", ..." if inner.model_config.get("extra") == "allow" else ""
        return ", ".join(f"`{name}`" for name in inner.model_fields) + more
    return field.description or ("by host" if model.__name__ == "Recap" else "open")


TABLES = {
    "orc_variables": table(HostSettings, "orc_"),
    "deployment": table(Deployment),
    "actions": action_table(),
    "events": event_kinds(),
}


def written(text: str) -> str:
    """The README with its tables as they must be."""
    return MARKED.sub(lambda found: found[1] + TABLES[found[2]] + found[3], text)


if __name__ == "__main__":
    README.write_text(written(README.read_text()))
