"""A layer: the variables that one place of an inventory gives to a group or to hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.documents import Document, Key
from orchestrator.errors import InputError

Place = Callable[[Sequence[Key]], str]


@dataclass(frozen=True, slots=True)
class Layer:
    """Variables, and where they stand. Hosts of one range share one layer."""

    values: Mapping[str, Any] = field(repr=False)  # they may be secret
    place: Place  # file:line of the value under these keys
    file: Path
    encrypted: bool = False  # the whole file was: every value in it is secret

    @property
    def directory(self) -> Path:
        return self.file.parent

    def error(self, what: str, keys: Sequence[Key] = (), **more: str | None) -> InputError:
        """An `InputError` at the place of `keys`."""
        return InputError(what, where=self.place(keys), **more)


def document_layer(
    document: Document, under: Sequence[Key], values: Any, *, encrypted: bool = False
) -> Layer:
    """The mapping `values`, which stands under the keys `under` of `document`, as a layer.

    Raises InputError when it is not a mapping of names to values.
    """
    prefix = tuple(under)
    if not isinstance(values, dict):
        raise document.error(f"variables are a mapping (name: value), not {kind(values)}", prefix)
    for name in values:
        if not isinstance(name, str):
            raise document.error(
                f"a variable's name is text, not {name!r}",
                prefix,
                hint="put the name into quotes",
            )
    return Layer(
        values=values,
        place=lambda keys: document.where((*prefix, *keys)),
        file=Path(document.path),
        encrypted=encrypted,
    )


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable's value as it was written, and the layer that gave it."""

    value: Any = field(repr=False)
    layer: Layer


def merge(layers: Iterable[Layer]) -> dict[str, Variable]:
    """The variables of `layers`, a later layer over an earlier one."""
    merged: dict[str, Variable] = {}
    for layer in layers:
        for name, value in layer.values.items():
            merged[name] = Variable(value, layer)
    return merged


def merge_keys(name: str, layers: Iterable[Layer]) -> dict[str, Variable]:
    """The mapping variable `name`, merged key by key along `layers`.

    Raises InputError when a layer gives something else than a mapping.
    """
    merged: dict[str, Variable] = {}
    for layer in layers:
        mapping = layer.values.get(name)
        if mapping is None:
            continue
        if not isinstance(mapping, dict):
            raise layer.error(
                f"{name} is a mapping (NAME: value), not {kind(mapping)}",
                (name,),
                hint=f"write {name}: {{NAME: value}}; a value may be a template",
            )
        for key, value in mapping.items():
            merged[str(key)] = Variable(value, layer)
    return merged


def kind(value: Any) -> str:
    """What `value` is, in words for a message."""
    names = {dict: "a mapping", list: "a list", type(None): "nothing", str: "text"}
    return names.get(type(value), repr(value))
