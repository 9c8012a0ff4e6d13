"""The one place that reads YAML: safe, fast, and able to say where in the file a value stands.

A document is parsed with PyYAML's C loader. Where something stands (file:line) is only found
out when it is asked for, since that takes a second pass and only errors need it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from orchestrator.errors import InputError, did_you_mean, nearest
from orchestrator.secret import REDACTED, is_secret_name
from orchestrator.yaml_loader import SafeLoader

Key = str | int
MAX_BYTES = 64 * 1024 * 1024
MAX_DEPTH = 100  # levels of mappings and lists: what walks them recursively must not overflow
MAX_ALIASED = 1_000_000  # values that a document may hold once its aliases are written out
_MAX_SHOWN = 120  # characters of a line in a message
Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed YAML file: its data, and where each part of it stands.

    What came from flags has no `lines`, and its place is `path` alone.
    """

    path: str
    text: str
    data: Any
    lines: bool = True

    def where(self, keys: Sequence[Key] = ()) -> str:
        """`file:line` of the value under `keys`, or of its nearest parent that exists.

        The path alone where there are no lines, as of a document made of flags.
        """
        if not self.lines:
            return self.path
        try:
            node = yaml.compose(self.text, Loader=yaml.CSafeLoader)
        except yaml.YAMLError:  # JSON that is no YAML, or another form altogether
            return self.path
        line = node.start_mark.line if node is not None else 0
        for key in keys:
            found = _child(node, key)
            if found is None:
                break
            node, line = found
        return f"{self.path}:{line + 1}"

    def error(self, what: str, keys: Sequence[Key] = (), **more: str | None) -> InputError:
        """An `InputError` at the place of `keys`."""
        return InputError(what, where=self.where(keys), **more)

    def validate(self, model: type[Model], data: Any = None, under: Sequence[Key] = ()) -> Model:
        """`data` (the whole document when None), which stands under `under`, as `model`.

        Raises InputError that names file, line, path and, for an unknown key, the nearest one.
        """
        whole = self.data if data is None else data
        try:
            return model.model_validate(whole)
        except ValidationError as error:
            raise _as_one(self._faults(error, model, tuple(under), whole)) from None

    def faults(self, model: type[BaseModel], data: Any) -> list[InputError]:
        """What keeps `data`, which is this document's, from being `model`, each by itself."""
        try:
            model.model_validate(data)
        except ValidationError as error:
            return list(self._faults(error, model, (), data))
        return []

    def _faults(
        self, error: ValidationError, model: type[BaseModel], under: tuple[Key, ...], data: Any
    ) -> Iterator[InputError]:
        for fault in error.errors(include_url=False, include_input=True):
            path = under + data_path(fault["loc"], data)
            # The line says which play or task it is in.
            inside = max(
                (at + 1 for at, key in enumerate(under) if isinstance(key, int)), default=0
            )
            name = ".".join(str(part) for part in path[inside:]) or "the document"
            if fault["type"] == "extra_forbidden":
                near = did_you_mean(str(path[-1]), _known_keys(model, fault["loc"]))
                yield self.error(f"unknown key {name!r}", path, hint=near)
                continue
            message, hint = _in_our_words(fault["type"], fault["msg"], fault["input"], name)
            hidden = any(key == "env" or is_secret_name(str(key)) for key in path)
            # A rule of our own about what is inside a mapping or list names it itself.
            ruled = fault["type"] == "value_error" and isinstance(fault["input"], dict | list)
            silent = hidden or ruled or fault["type"] == "missing"
            got = "" if silent else f", not {_short(fault['input'])}"
            yield self.error(f"{name}: {message}{got}", path, hint=hint)


def _in_our_words(kind: str, message: str, given: Any, name: str) -> tuple[str, str | None]:
    """What pydantic says of a value, in words of a YAML file, and what to do about it."""
    if kind in ("model_type", "model_attributes_type"):
        hint = f"for all its defaults write `{name}: {{}}`" if given is True else None
        hint = "leave it out" if given is False else hint
        return "this is a mapping of fields", hint
    if kind in ("dict_type", "mapping_type"):
        return "this is a mapping of names and values", None
    if kind in ("list_type", "tuple_type"):
        return "this is a list", None
    hint = None
    if kind == "literal_error" and isinstance(given, str):
        near = nearest(given, re.findall("'([^']*)'", message))
        hint = f"did you mean {near!r}?" if near else None
    message = message.removeprefix("Value error, ")
    return message[:1].lower() + message[1:], hint


def _as_one(faults: Iterable[InputError]) -> InputError:
    """Several faults of a document in one error, each after its place."""
    first, *others = faults
    lines = [first.what, *(f"{fault.where}: {fault.what}" for fault in others)]
    hints = dict.fromkeys(fault.hint for fault in (first, *others) if fault.hint)
    return InputError("\n".join(lines), where=first.where, hint="; ".join(hints) or None)


def check_text(text: str, where: str) -> None:
    """Raises InputError for text that cannot be written out: bytes of no UTF-8 in an argument."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError("this is no text in UTF-8", where=where) from None


def read_document(path: Path | str) -> Document:
    """The YAML file at `path`.

    Raises InputError when it is missing, cannot be read or is not YAML: the message holds
    file, line, column and the line itself.
    """
    return parse_document(read_text(path), str(path))


def read_text(path: Path | str) -> str:
    """The text of a file.

    Raises InputError when it is missing, cannot be read, is no text, or is bigger than MAX_BYTES.
    """
    data = read_bytes(path)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("cannot be read: not a text file in UTF-8", where=str(path)) from None
    if "\0" in text:
        raise InputError("cannot be read: not a text file, it holds zero bytes", where=str(path))
    return text


def read_bytes(path: Path | str) -> bytes:
    """The content of a file. Raises InputError as `read_text`.

    What comes out of a pipe (`<(command)`) is read as well; one that nobody writes to is waited
    for, as by every command.
    """
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise InputError("no such file", where=str(path)) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(path)) from None
    except ValueError:  # a zero byte in the name
        raise InputError("not the name of a file", where=repr(str(path))) from None
    if len(data) > MAX_BYTES:
        raise InputError(f"bigger than {MAX_BYTES >> 20} MiB", where=str(path))
    return data


def expand_user(path: Path | str) -> Path:
    """`path` with `~` and `~user` replaced. Raises InputError when there is no such home."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise InputError("there is no such home directory", where=str(path)) from None


def parse_document(text: str, path: str) -> Document:
    """`text` as YAML; `path` is what messages call it. Raises InputError as `read_document`."""
    try:
        data = yaml.load(text, Loader=SafeLoader)  # noqa: S506 - a safe loader
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, text, path) from None
    except yaml.YAMLError as error:
        raise InputError(f"not YAML: {error}", where=path) from None
    _check_extent(data, path)
    return Document(path=path, text=text, data=data)


def _check_extent(data: Any, path: str) -> None:
    """Refuse data that nobody could walk: below itself, too deep, or endless by its aliases."""
    sizes: dict[int, int] = {}  # of mappings and lists, written out; 0: it is being measured

    def size(value: Any, depth: int) -> int:
        if not isinstance(value, dict | list):
            return 1
        if depth > MAX_DEPTH:
            raise InputError(f"nested deeper than {MAX_DEPTH} levels", where=path)
        known = sizes.get(id(value))
        if known == 0:
            raise InputError(
                "an alias (*name) stands inside the value that its anchor (&name) marks",
                where=path,
                hint="write the value out instead of the alias",
            )
        if known is None:
            sizes[id(value)] = 0
            parts = value.values() if isinstance(value, dict) else value
            known = sizes[id(value)] = 1 + sum(size(part, depth + 1) for part in parts)
        return known

    whole = size(data, 0)
    if whole > MAX_ALIASED and whole > 2 * _written(data):
        raise InputError(
            f"its aliases (*name) stand for more than {MAX_ALIASED} values",
            where=path,
            hint="a file that grows so much by its aliases is hostile or broken",
        )


def _written(data: Any) -> int:
    """How many values stand in the file itself: what aliases repeat counts once."""
    seen: set[int] = set()
    waiting, count = [data], 0
    while waiting:
        value = waiting.pop()
        count += 1
        if isinstance(value, dict | list) and id(value) not in seen:
            seen.add(id(value))
            waiting += value.values() if isinstance(value, dict) else value
    return count


def _syntax_error(error: yaml.MarkedYAMLError, text: str, path: str) -> InputError:
    mark = error.problem_mark or error.context_mark
    problem = error.problem or error.context or "not YAML"
    if mark is None:
        return InputError(f"not YAML: {problem}", where=path)
    line, column = _shown_line(text, mark.line, mark.column)
    pointer = " " * column + "^"
    return InputError(
        f"{problem}\n    {line}\n    {pointer}", where=f"{path}:{mark.line + 1}:{mark.column + 1}"
    )


def _shown_line(text: str, number: int, column: int) -> tuple[str, int]:
    """A line around `column` as a message may hold it, and where the column is in that.

    Not the value that stands in it under a secret's name, and no more than a screen's width.
    """
    lines = re.split("\r\n|[\n\r\x85\u2028\u2029]", text)  # what YAML counts as lines
    line = lines[number] if number < len(lines) else ""
    named = re.match(r"""[\s{\[,-]*["']?([\w.-]+)["']?\s*[:=]""", line)
    if named and (is_secret_name(named[1]) or "pass" in named[1].lower()):
        return f"{line[: named.end()]} {REDACTED}", min(column, named.end())
    if len(line) > _MAX_SHOWN:
        start = max(0, column - _MAX_SHOWN // 2)
        line, column = line[start : start + _MAX_SHOWN], column - start
    # A control character could say anything on a terminal.
    return "".join(char if char.isprintable() or char == "\t" else "?" for char in line), column


def _child(node: yaml.Node | None, key: Key) -> tuple[yaml.Node, int] | None:
    if isinstance(node, yaml.MappingNode):
        for key_node, value in node.value:
            if key_node.value == str(key):
                return value, key_node.start_mark.line
    elif isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
        value = node.value[key]
        return value, value.start_mark.line
    return None


def data_path(location: Sequence[Key], data: Any) -> tuple[Key, ...]:
    """pydantic's location without the branches of unions: what stands in `data` is a key."""
    keys: list[Key] = []
    for part in location:
        below = data.get(part) if isinstance(data, Mapping) else None
        if isinstance(data, list) and isinstance(part, int) and part < len(data):
            below = data[part]
        known = isinstance(data, Mapping) and part in data
        if known or not _is_union_tag(part):
            keys.append(part)
            data = below
    return tuple(keys)


def _is_union_tag(part: Key) -> bool:
    """pydantic puts the branch of a union (`str`, `list[int]`, `Pools`) into the location."""
    return (
        isinstance(part, str)
        and (part in {"str", "int", "float", "bool", "none"} or "[" in part or part[:1].isupper())
        and not part.isupper()
    )


def _known_keys(model: type[BaseModel], location: Sequence[Key]) -> list[str]:
    """The keys that the model at the parent of `location` knows."""
    current: Any = model
    for part in location[:-1]:
        fields = getattr(current, "model_fields", {})
        annotation = None
        for name, field in fields.items():
            if part in (name, field.alias):
                annotation = field.annotation
        found = _model_in(annotation)
        current = found or current
    fields = getattr(current, "model_fields", {})
    return [field.alias or name for name, field in fields.items()]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        found = _model_in(argument)
        if found:
            return found
    return None


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
