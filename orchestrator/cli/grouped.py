"""Options that several commands share, as one dataclass that a command takes as one parameter."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints


def grouped(command: Callable[..., Any]) -> Callable[..., Any]:
    """`command` for typer: a parameter that is a dataclass stands for the options in its fields.

    typer reads a function's parameters, so the fields become parameters of a wrapper, in their
    place, and the dataclass is made of them before `command` is called.
    """
    hints = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, type[Any]] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        kind = hints[name]
        if not (isinstance(kind, type) and is_dataclass(kind)):
            parameters.append(parameter.replace(annotation=hints[name]))
            continue
        groups[name] = kind
        own = inspect.signature(kind).parameters
        inner = get_type_hints(kind, include_extras=True)
        parameters += [
            own[field.name].replace(annotation=inner[field.name]) for field in fields(kind)
        ]

    def wrapper(**values: Any) -> Any:
        made = {
            name: kind(**{field.name: values.pop(field.name) for field in fields(kind)})
            for name, kind in groups.items()
        }
        return command(**made, **values)

    wrapper.__name__ = command.__name__
    wrapper.__doc__ = command.__doc__
    # Options come by name, so a required one may follow an optional one.
    keyword = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
    wrapper.__dict__["__signature__"] = inspect.Signature(keyword)
    wrapper.__annotations__ = {p.name: p.annotation for p in keyword}
    return wrapper
