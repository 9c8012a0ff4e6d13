"""Jinja2 in values: sandboxed, strict about undefined names, keeping the type of a value."""

from __future__ import annotations

import json
import os.path
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateSyntaxError, Undefined, nodes, pass_context
from jinja2.compiler import Frame
from jinja2.nativetypes import NativeCodeGenerator, NativeTemplate
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import missing

from orchestrator.inventory import template_limits as limits
from orchestrator.yaml_loader import parse_json

Resolve = Callable[[str], Any]  # a variable's value; raises KeyError when there is none


def _concatenate(values: Iterable[Any]) -> Any:
    """A lone expression keeps its type; among other text it becomes text.

    Unlike Jinja's own native types, text is never read as a literal: "007" stays text.
    """
    parts, size = [], 0
    for value in values:
        parts.append(value)
        size += limits.measure(value)
        limits.check_size(size)
    if len(parts) == 1:
        return _defined(parts[0])
    return "".join(str(value) for value in parts)


def _defined(value: Any) -> Any:
    """`value`, with what it yields as a list. Raises UndefinedError for an undefined part."""
    if isinstance(value, Undefined):
        str(value)  # raises
    if isinstance(value, Mapping):
        return {key: _defined(part) for key, part in value.items()}
    if isinstance(value, list | tuple | set | range | Iterator):
        return [_defined(part) for part in value]
    return value


class _CodeGenerator(NativeCodeGenerator):
    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802 - Jinja's
        self.write("environment.joined((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")


class _VariableContext(Context):
    """Looks a name up only when the template reaches it."""

    resolve_variable: Resolve

    def resolve_or_missing(self, key: str) -> Any:
        found = super().resolve_or_missing(key)
        if found is not missing:
            return found
        try:
            return self.resolve_variable(key)
        except KeyError:
            return missing


class _Environment(ImmutableSandboxedEnvironment):
    code_generator_class = _CodeGenerator
    concat = staticmethod(_concatenate)
    template_class = NativeTemplate
    context_class = _VariableContext
    intercepted_binops = frozenset({"*", "**", "%", "+"})

    def call_binop(self, _: Context, operator: str, left: Any, right: Any) -> Any:
        return limits.binary(operator, self.binop_table[operator], left, right)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        limits.check_call(__obj, args, kwargs)
        value = super().call(__context, __obj, *args, **kwargs)
        if isinstance(value, str | int):
            limits.measure(value)
        return value

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        found = super().wrap_str_format(value)
        if found is None:
            return None
        text, by_mapping = str(value.__self__), value.__name__ == "format_map"

        def formatted(*args: Any, **kwargs: Any) -> str:
            if by_mapping:
                (kwargs,), args = args, ()
            return limits.BoundedFormatter(self).vformat(text, args, kwargs)

        return formatted

    @staticmethod
    def joined(parts: Sequence[Any]) -> str:
        """What `~` makes of its parts."""
        limits.measure(parts)
        return "".join(map(str, parts))


def _boolean(value: Any) -> bool:
    return str(value).lower() in ("yes", "on", "1", "true", "1.0")


def _combine(*mappings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for mapping in mappings for key, value in mapping.items()}


def _ternary(value: Any, if_true: Any, if_false: Any) -> Any:
    return if_true if value else if_false


def _regex_replace(value: Any, pattern: str, replacement: str = "") -> str:
    return limits.replaced(pattern, replacement, str(value))


def _split(value: Any, separator: str | None = None) -> list[str]:
    return str(value).split(separator)


def _match(value: Any, pattern: str) -> bool:
    return re.match(pattern, str(value)) is not None


def _search(value: Any, pattern: str) -> bool:
    return re.search(pattern, str(value)) is not None


def _says(key: str) -> Callable[[Any], bool]:
    """A test of what a task registered."""
    return lambda result: isinstance(result, Mapping) and bool(result.get(key))


def _succeeded(result: Any) -> bool:
    return isinstance(result, Mapping) and not result.get("failed")


_TESTS: Mapping[str, Callable[..., bool]] = {
    "changed": _says("changed"),
    "failed": _says("failed"),
    "match": _match,
    "search": _search,
    "skipped": _says("skipped"),
    "succeeded": _succeeded,
    "success": _succeeded,
    "unreachable": _says("unreachable"),
}

# The filters of Ansible that inventories use most; all of Jinja's own are there too.
_FILTERS: Mapping[str, Callable[..., Any]] = {
    "basename": os.path.basename,
    "bool": _boolean,
    "combine": _combine,
    "dirname": os.path.dirname,
    "expanduser": os.path.expanduser,
    "from_json": parse_json,
    "regex_replace": _regex_replace,
    "split": _split,
    "ternary": _ternary,
    "to_json": json.dumps,
}


@pass_context
def _as_it_is(_: Context, value: Any) -> Any:
    """A finalizer that needs the context keeps Jinja from folding `{{ [4, 5] }}` into text."""
    return value


def _make_environment() -> _Environment:
    environment = _Environment(
        undefined=StrictUndefined, keep_trailing_newline=True, finalize=_as_it_is
    )
    environment.filters.update(_FILTERS)
    for name, function in environment.filters.items():
        environment.filters[name] = limits.bounded(name, function)
    del environment.globals["lipsum"]  # text without end, of no use here
    environment.tests.update(_TESTS)
    return environment


_ENVIRONMENT = _make_environment()


_OF_FILES = _ENVIRONMENT.overlay(trim_blocks=True)  # as Ansible's


@lru_cache(maxsize=4096)
def _compile(text: str, is_file: bool = False) -> Template:
    return (_OF_FILES if is_file else _ENVIRONMENT).from_string(text)


def render(
    text: str, resolve: Resolve, functions: Mapping[str, Any], *, is_file: bool = False
) -> Any:
    """The value of the template `text`: a lone `{{ expression }}` keeps its type.

    `resolve` gives a variable's value; `functions` are further names. In a file (`is_file`) a
    line of its own for `{% ... %}` leaves no empty line. Raises what Jinja2 raises.
    """
    template = _compile(text, is_file)
    context = template.new_context(dict(functions))
    assert isinstance(context, _VariableContext)
    context.resolve_variable = resolve
    return _ENVIRONMENT.concat(template.root_render_func(context))


def parsed(text: str) -> nodes.Template:
    """The template `text` as Jinja2's syntax tree. Raises TemplateSyntaxError."""
    return _ENVIRONMENT.parse(text)


def syntax_error(text: str) -> str | None:
    """Why Jinja2 cannot read the template `text`; None when it can."""
    try:
        _compile(text)
    except TemplateSyntaxError as error:
        return error.message
    return None


def undefined(hint: str) -> Undefined:
    """A value that is undefined for the reason `hint`, so that `| default(...)` can replace it."""
    return StrictUndefined(hint=hint)
