"""PyYAML's safe C loader, made stricter: what it makes of each value of a file."""

from __future__ import annotations

import json
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import yaml

MAX_INTEGER_BITS = 256  # Python refuses to print one of thousands of digits
_MAX_NUMBER = 1000  # characters: a longer one would be slow to read


@dataclass(frozen=True, slots=True)
class VaultText:
    """A value under `!vault`: text that Ansible Vault encrypted."""

    ciphertext: str


class UntemplatedText(str):
    """A value under `!unsafe`: text in which `{{` means nothing."""

    __slots__ = ()


def is_too_large(value: object) -> bool:
    """Whether `value` is an integer that means nothing, and could not even be printed."""
    return isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS


def parse_json(text: str | bytes) -> Any:
    """`text` as JSON. Raises ValueError, also for a number that is too large."""

    def integer(digits: str) -> int:
        if len(digits) > _MAX_NUMBER or is_too_large(int(digits)):
            raise ValueError("a number in it is too large")
        return int(digits)

    return json.loads(text, parse_int=integer)


class SafeLoader(yaml.CSafeLoader):
    """Also refuses a key that a mapping holds twice, and numbers of absurd size."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """A value that its tag, written or guessed, cannot have (`2020-13-45`, `!!int x`) is an
        error of the file at its place, whichever exception PyYAML makes of it. So is a number
        too large to be one."""
        number = node.tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
        if number and len(node.value) > _MAX_NUMBER:
            raise self._too_large(node)
        try:
            value = super().construct_object(node, deep)
        except (ArithmeticError, AssertionError, AttributeError, LookupError, ValueError):
            kind = node.tag.removeprefix("tag:yaml.org,2002:")
            raise yaml.constructor.ConstructorError(
                None, None, f"this cannot be read as {kind}; text goes into quotes", node.start_mark
            ) from None
        if number and is_too_large(value):
            raise self._too_large(node)
        return value

    @staticmethod
    def _too_large(node: yaml.Node) -> yaml.constructor.ConstructorError:
        text = "this number is too large; if it is text, put it into quotes"
        return yaml.constructor.ConstructorError(None, None, text, node.start_mark)

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
    text = loader.construct_yaml_str(node)  # refuses a list or a mapping
    return VaultText(text)


def _construct_unsafe(loader: yaml.CSafeLoader, node: yaml.Node) -> Any:
    text = loader.construct_yaml_str(node)
    return UntemplatedText(text)


SafeLoader.add_constructor("!vault", _construct_vault)
SafeLoader.add_constructor("!unsafe", _construct_unsafe)
