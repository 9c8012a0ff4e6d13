"""What is left of faulty data without its faults, so that one check does not hide another."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from orchestrator.documents import Key, Model, data_path

_ABSENT = object()


def valid_part(model: type[Model], data: Any, needed: Mapping[str, Any]) -> Model | None:
    """`data` as `model` without what is faulty in it, so that the rest can be checked further.

    `needed` stands in for what the model cannot be without; an item of a list that should be text
    becomes an empty one, so that the others keep their places. None where no `model` is left.
    """
    rest = copy.deepcopy(data)
    while True:
        try:
            return model.model_validate(rest)
        except ValidationError as error:
            faults = error.errors(include_url=False, include_input=False)
        kinds = {data_path(fault["loc"], rest): fault["type"] for fault in faults}
        # The last item of a list goes first, so that the others are still where they were.
        ordered = sorted(kinds, key=_in_order, reverse=True)
        mended = [_mend(rest, path, kinds[path], needed) for path in ordered]
        if not any(mended):
            return None


def _in_order(path: Sequence[Key]) -> list[str]:
    return [f"{key:09}" if isinstance(key, int) else key for key in path]


def _mend(data: Any, path: tuple[Key, ...], kind: str, needed: Any) -> bool:
    """Take away the faulty value under `path`, or what lacks it; whether there was one."""
    instead = _value_at(needed, path)
    if kind == "missing" and instead is None:
        path = path[:-1]
    parent: Any = _value_at(data, path[:-1])
    key: Any = path[-1] if path else None
    if not path or (kind != "missing" and _value_at(parent, (key,), _ABSENT) is _ABSENT):
        return False
    if instead is not None:
        parent[key] = copy.deepcopy(instead)
    elif isinstance(parent, list) and kind == "string_type":
        parent[key] = ""
    else:
        del parent[key]
    return True


def _value_at(data: Any, path: Sequence[Any], absent: Any = None) -> Any:
    for key in path:
        try:
            data = data[key]
        except (KeyError, IndexError, TypeError):
            return absent
    return data
