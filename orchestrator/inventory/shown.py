"""Variables as they were written, with what is secret redacted, also where it is repeated.

Nothing is resolved, since that may run a lookup: which variables a secret is made of is read off
its template.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from orchestrator.inventory.redaction import is_secret_variable, redacted
from orchestrator.secret import REDACTED
from orchestrator.yaml_loader import UntemplatedText

if TYPE_CHECKING:
    from jinja2 import nodes

Path = tuple[str, ...]  # a variable's name, and the keys within it

_EQUAL, _WITHIN = 4, 6  # characters; a shorter secret would redact half of the inventory


@dataclass(frozen=True, slots=True)
class Part:
    """A value as it was written; `secret`: the file it stands in was encrypted."""

    path: Path
    value: Any
    secret: bool


def as_shown(parts: Sequence[Part]) -> list[Any]:
    """The values of `parts` as they may be shown."""
    secrets, sources = _secrets(parts)
    texts = sorted({text for text in secrets if len(text) >= _EQUAL}, key=len, reverse=True)
    return [_shown(part.path, part.value, part.secret, sources, texts) for part in parts]


def _is_secret(path: Path, secret: bool, sources: set[Path]) -> bool:
    name = path[-1]
    # By custom the variables of an encrypted file are named so, and it may not be encrypted yet.
    return secret or is_secret_variable(name) or name.startswith("vault_") or path in sources


def _secrets(parts: Sequence[Part]) -> tuple[set[str], set[Path]]:
    """Every text that is secret, and the variables that secrets are made of."""
    sources: set[Path] = set()
    while True:
        texts = {text for part in parts for text in _secret_texts(part, sources)}
        templates = {text for text in texts if not isinstance(text, UntemplatedText)}
        found = {path for text in templates if "{{" in text for path in _made_of(text)}
        if found <= sources:
            return {text for text in texts if "{{" not in text}, sources
        sources |= found


def _secret_texts(part: Part, sources: set[Path]) -> Iterator[str]:
    waiting = [(part.path, part.value, part.secret)]
    while waiting:
        path, value, secret = waiting.pop()
        secret = _is_secret(path, secret, sources)
        if isinstance(value, Mapping):
            waiting += [((*path, str(key)), inner, secret) for key, inner in value.items()]
        elif isinstance(value, list):
            waiting += [(path, inner, secret) for inner in value]
        elif secret and isinstance(value, str):
            yield value


def _shown(path: Path, value: Any, secret: bool, sources: set[Path], texts: list[str]) -> Any:
    secret = _is_secret(path, secret, sources)
    if isinstance(value, Mapping):
        return {
            str(key): _shown((*path, str(key)), inner, secret, sources, texts)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_shown(path, inner, secret, sources, texts) for inner in value]
    value = redacted(path[-1], value, secret=secret)
    if isinstance(value, str) and value != REDACTED:
        for text in texts:
            if value == text or len(text) >= _WITHIN:
                value = value.replace(text, REDACTED)
    return value


@lru_cache(maxsize=4096)
def _made_of(text: str) -> tuple[Path, ...]:
    """The variables whose values stand in what the template `text` becomes."""
    from jinja2 import TemplateSyntaxError, nodes

    from orchestrator.inventory.templating import parsed

    try:
        outputs = parsed(text).find_all(nodes.Output)
        return tuple(path for output in outputs for path in _of_all(output.nodes))
    except TemplateSyntaxError:
        return ()  # it is an error where it is needed


def _paths(node: nodes.Expr) -> Iterable[Path]:
    from jinja2 import nodes

    if isinstance(node, nodes.Name):
        return [(node.name,)]
    if isinstance(node, nodes.Getattr | nodes.Getitem):
        key = node.attr if isinstance(node, nodes.Getattr) else _constant(node.arg)
        return [_below(path, key) for path in _paths(node.node)]
    if isinstance(node, nodes.Filter):
        given = node.args if node.name in ("default", "d") else []
        return _of_all([*([node.node] if node.node else []), *given])
    if isinstance(node, nodes.BinExpr):  # also `a or b`
        return _of_all([node.left, node.right])
    if isinstance(node, nodes.Concat):
        return _of_all(node.nodes)
    if isinstance(node, nodes.CondExpr):
        return _of_all([node.expr1, *([node.expr2] if node.expr2 else [])])
    return []


def _of_all(found: Iterable[nodes.Expr]) -> list[Path]:
    return [path for node in found for path in _paths(node)]


def _constant(node: nodes.Expr) -> str | None:
    from jinja2 import nodes

    return str(node.value) if isinstance(node, nodes.Const) else None


def _below(path: Path, key: str | None) -> Path:
    """`registry` and `password`; of `hostvars[HOST]` the name alone, as if it were our own."""
    if path == ("hostvars",):
        return ("hostvars", "")
    if path == ("hostvars", ""):
        return (key or "",)
    return path if key is None else (*path, key)
