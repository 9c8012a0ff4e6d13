"""`-e` of `orc play`: variables of the command line, which win over all others."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from orchestrator.documents import parse_document, read_document
from orchestrator.errors import UsageError


def extra_variables(given: Sequence[str]) -> dict[str, Any]:
    """`NAME=VALUE` (several in one text too), `@FILE` and `{...}`, the last one wins.

    A value is read as YAML: `yes` is true, `3` a number, `[1, 2]` a list. Raises UsageError for
    what is none of these, InputError for a file that cannot be read.
    """
    variables: dict[str, Any] = {}
    for text in given:
        variables |= _one(text)
    return variables


def _one(text: str) -> dict[str, Any]:
    if text.startswith("@"):
        return _mapping(read_document(text[1:]).data, text)
    if text.lstrip().startswith("{"):
        return _mapping(parse_document(text, "-e").data, text)
    found = {}
    for word in _words(text):
        name, equals, value = word.partition("=")
        if not equals:
            raise UsageError(
                f"-e {word}: neither NAME=VALUE, nor @FILE, nor {{...}}",
                hint="a value with spaces goes into quotes: -e \"text='two words'\"",
            )
        found[_name(name)] = parse_document(value, f"-e {name}").data
    return found


def _words(text: str) -> list[str]:
    """A single NAME=VALUE keeps its quotes and brackets; several are parted by spaces."""
    try:
        words = shlex.split(text)
    except ValueError:
        return [text]
    return words if len(words) > 1 and all("=" in word for word in words) else [text]


def _mapping(data: Any, text: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise UsageError(f"-e {text}: variables are a mapping of names and values")
    return {_name(str(name)): value for name, value in data.items()}


def _name(name: str) -> str:
    if not name.isidentifier():
        raise UsageError(f"-e {name!r} cannot be the name of a variable")
    return name
