"""The one place that reads YAML: safe, fast, and able to say where in the file a value stands.

A document is parsed with PyYAML's C loader. Where something stands (file:line) is only found
out when it is asked for, since that takes a second pass and only errors need it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from orchestrator.errors import InputError, did_you_mean

Key = str | int
Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class VaultText:
    """A value under `!vault`: text that Ansible Vault encrypted."""

    ciphertext: str


class UntemplatedText(str):
    """A value under `!unsafe`: text in which `{{` means nothing."""

    __slots__ = ()


class _Loader(yaml.CSafeLoader):
    """PyYAML's safe C loader, which also refuses a key that a mapping holds twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: dict[Any, yaml.Mark] = {}
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable) and key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key!r} stands here twice", key_node.start_mark
                )
            if isinstance(key, Hashable):
                seen[key] = key_node.start_mark
        return super().construct_mapping(node, deep)


def _construct_vault(loader: yaml.CSafeLoader, node: yaml.Node) -> VaultText:
    assert isinstance(node, yaml.ScalarNode)
    return VaultText(str(loader.construct_scalar(node)))


def _construct_unsafe(loader: yaml.CSafeLoader, node: yaml.Node) -> Any:
    text = loader.construct_yaml_str(node)
    return UntemplatedText(text)


_Loader.add_constructor("!vault", _construct_vault)
_Loader.add_constructor("!unsafe", _construct_unsafe)


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed YAML file: its data, and where each part of it stands."""

    path: str
    text: str
    data: Any

    def where(self, keys: Sequence[Key] = ()) -> str:
        """`file:line` of the value under `keys`, or of its nearest parent that exists.

        The path alone where there is no text, as of a document made of flags.
        """
        if not self.text:
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
        try:
            return model.model_validate(self.data if data is None else data)
        except ValidationError as error:
            raise self._explain(error, model, tuple(under)) from None

    def _explain(
        self, error: ValidationError, model: type[BaseModel], under: tuple[Key, ...]
    ) -> InputError:
        lines: list[str] = []
        hints = []
        first = ""
        for fault in error.errors(include_url=False, include_input=True):
            path = under + tuple(part for part in fault["loc"] if not _is_union_tag(part))
            where = self.where(path)
            first = first or where
            place = f"{where}: " if lines else ""
            name = ".".join(str(part) for part in path) or "the document"
            if fault["type"] == "extra_forbidden":
                lines.append(f"{place}unknown key {name!r}")
                hints.append(did_you_mean(str(path[-1]), _known_keys(model, fault["loc"])))
            else:
                message = fault["msg"].removeprefix("Value error, ")
                message = message[:1].lower() + message[1:]
                got = "" if fault["type"] == "missing" else f", not {_short(fault['input'])}"
                lines.append(f"{place}{name}: {message}{got}")
        hint = "; ".join(dict.fromkeys(hints)) or None
        return InputError("\n".join(lines), where=first, hint=hint)


def read_document(path: Path | str) -> Document:
    """The YAML file at `path`.

    Raises InputError when it is missing, cannot be read or is not YAML: the message holds
    file, line, column and the line itself.
    """
    return parse_document(read_text(path), str(path))


def read_text(path: Path | str) -> str:
    """The text of a file. Raises InputError when it is missing or cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError("no such file", where=str(path)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", where=str(path)) from None


def parse_document(text: str, path: str) -> Document:
    """`text` as YAML; `path` is what messages call it. Raises InputError as `read_document`."""
    try:
        data = yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader, see above
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, text, path) from None
    except yaml.YAMLError as error:
        raise InputError(f"not YAML: {error}", where=path) from None
    if "*" in text and _contains_itself(data, set(), set()):
        raise InputError(
            "an alias (*name) stands inside the value that its anchor (&name) marks",
            where=path,
            hint="write the value out instead of the alias",
        )
    return Document(path=path, text=text, data=data)


def _contains_itself(value: Any, above: set[int], done: set[int]) -> bool:
    """Whether a mapping or list in `value` is below itself, which only an alias can do."""
    if not isinstance(value, dict | list) or id(value) in done:
        return False
    if id(value) in above:
        return True
    above.add(id(value))
    parts = value.values() if isinstance(value, dict) else value
    found = any(_contains_itself(part, above, done) for part in parts)
    above.remove(id(value))
    done.add(id(value))
    return found


def _syntax_error(error: yaml.MarkedYAMLError, text: str, path: str) -> InputError:
    mark = error.problem_mark or error.context_mark
    problem = error.problem or error.context or "not YAML"
    if mark is None:
        return InputError(f"not YAML: {problem}", where=path)
    lines = text.splitlines()
    line = lines[mark.line] if mark.line < len(lines) else ""
    pointer = " " * mark.column + "^"
    return InputError(
        f"{problem}\n    {line}\n    {pointer}", where=f"{path}:{mark.line + 1}:{mark.column + 1}"
    )


def _child(node: yaml.Node | None, key: Key) -> tuple[yaml.Node, int] | None:
    if isinstance(node, yaml.MappingNode):
        for key_node, value in node.value:
            if key_node.value == str(key):
                return value, key_node.start_mark.line
    elif isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
        value = node.value[key]
        return value, value.start_mark.line
    return None


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
