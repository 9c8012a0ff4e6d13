"""Templates in values of any shape: which have one, whether it can be read, and filling them in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from orchestrator.yaml_loader import UntemplatedText

# One bare Jinja2 expression, or what YAML made of `true` and `false`.
Condition = str | bool


def has_template(value: Any) -> bool:
    """Whether any text in `value` is a template."""
    if isinstance(value, Mapping):
        return any(has_template(part) for part in value.values())
    if isinstance(value, list | tuple):
        return any(has_template(part) for part in value)
    return (
        isinstance(value, str)
        and not isinstance(value, UntemplatedText)
        and ("{{" in value or "{%" in value or "{#" in value)
    )


def check_syntax(value: Any) -> str | None:
    """What is wrong with the first template in `value` that Jinja2 cannot read, if any."""
    if not has_template(value):
        return None
    if isinstance(value, Mapping | list | tuple):
        parts = value.values() if isinstance(value, Mapping) else value
        return next((wrong for wrong in map(check_syntax, parts) if wrong), None)
    from orchestrator.inventory.templating import syntax_error

    return syntax_error(value)


def filled(value: Any, fill: Callable[[str], Any]) -> Any:
    """`value` with every template in it replaced by what `fill` makes of it."""
    if not has_template(value):
        return value
    if isinstance(value, Mapping):
        return {key: filled(part, fill) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [filled(part, fill) for part in value]
    return fill(value)
