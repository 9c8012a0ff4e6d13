"""How much a template may make: what would take all memory is refused before it is made.

A template is text of a file that somebody else may have written; a slip of a zero too many must
not take the machine down. What takes long without growing (a regular expression, loops in loops)
is not limited.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from itertools import chain
from typing import Any

from jinja2.sandbox import SandboxedFormatter

from orchestrator.errors import InputError
from orchestrator.yaml_loader import is_too_large

LARGEST = 16 * 1024 * 1024  # characters
_ITEM = 16  # what an item of a list counts for, in characters
_DIGITS = 1000  # decimal places

_WIDTHS = re.compile(r"%(?:\([^)]*\))?[-#0 +]*(\d+)?(?:\.(\d+))?")
_PADDING = frozenset({"ljust", "rjust", "center", "zfill", "to_bytes"})


def too_large() -> InputError:
    return InputError(
        f"the template makes more than {LARGEST >> 20} MiB, or a number too large to be one",
        hint="look for a factor, a width or a power with too many digits",
    )


def check_size(size: int) -> None:
    """Raises InputError for more characters than a template may make."""
    if size > LARGEST:
        raise too_large()


def measure(*values: Any) -> int:
    """The characters that `values` come to, written out. Raises InputError for too many.

    Only what is already there is looked at: reading a variable of a host may run a lookup.
    """
    size = 0
    waiting: list[Iterable[Any]] = [values]
    while waiting:
        for value in waiting.pop():
            size += _ITEM
            if isinstance(value, str | bytes):
                size += len(value)
            elif isinstance(value, list | tuple | set | frozenset):
                waiting.append(value)
            elif isinstance(value, dict):
                waiting.append(chain(value.keys(), value.values()))
            elif is_too_large(value):
                raise too_large()
            check_size(size + _ITEM * len(waiting))
    return size


def binary(operator: str, compute: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """`left operator right`, unless that is too large."""
    if operator == "*":
        for many, factor in ((left, right), (right, left)):
            if isinstance(many, str | bytes | list | tuple) and isinstance(factor, int):
                check_size(measure(many) * max(factor, 0))
    elif operator == "**" and isinstance(left, int) and isinstance(right, int):
        if abs(left) > 1 and is_too_large(1 << min(max(right, 0) * (left.bit_length() - 1), 1024)):
            raise too_large()
    elif operator == "+":
        measure(left, right)
    elif operator == "%" and isinstance(left, str):
        _check_percent(left, right)
    value = compute(left, right)
    if is_too_large(value):
        raise too_large()
    return value


def _number(digits: str) -> int:
    """The number, or one that is large enough: that of very many digits is not computed."""
    return int(digits.lstrip("0")[:9] or 0)


def _check_percent(text: str, given: Any) -> None:
    """`'%9d' % 1`: the widths, those given as `*`, and what is put in."""
    widths = sum(_number(n) for found in _WIDTHS.finditer(text) for n in found.groups() if n)
    if "*" in text:
        given_widths = given if isinstance(given, tuple) else (given,)
        widths += sum(abs(number) for number in given_widths if isinstance(number, int))
    times = text.count("%(") if isinstance(given, dict) else 1
    check_size(len(text) + widths + times * measure(given))


class BoundedFormatter(SandboxedFormatter):
    """`'{:>9}'.format(1)`, of which the widths and the whole are bounded."""

    made = 0

    def format_field(self, value: Any, format_spec: str) -> Any:
        for digits in re.findall(r"\d+", format_spec):
            check_size(_number(digits))
        text = super().format_field(value, format_spec)
        self.made += len(text)
        check_size(self.made)
        return text


def check_call(function: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> None:
    """Raises InputError when a method of a text or number would make too much."""
    measure(*arguments, *named.values())
    text, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
    if not isinstance(text, str | bytes | int):
        return
    given = [*arguments, *named.values()]
    if name in _PADDING:
        check_size(max((value for value in given if isinstance(value, int)), default=0))
    elif isinstance(text, str | bytes):
        _check_growth(name, text, given)


def _check_growth(name: str, text: Any, given: Sequence[Any]) -> None:
    if name == "replace" and len(given) > 1:
        check_size(len(text) + text.count(given[0]) * len(given[1]))
    elif name == "join" and given and isinstance(given[0], list | tuple | set | dict | str):
        check_size(measure(given[0]) + len(given[0]) * len(text))
    elif name == "expandtabs":
        tab = next((value for value in given if isinstance(value, int)), 8)
        check_size(len(text) + text.count("\t") * max(tab, 0))
    elif name == "translate" and given and isinstance(given[0], dict):
        widest = max((len(v) for v in given[0].values() if isinstance(v, str)), default=1)
        check_size(len(text) * max(widest, 1))


def _of_join(value: Any, d: str = "", *_: Any) -> int:
    count = len(value) if isinstance(value, list | tuple | set | dict | str) else 0
    return measure(value) + count * len(str(d))


def _of_replace(value: Any, old: Any, new: Any, *_: Any) -> int:
    text = str(value)
    return len(text) + text.count(str(old)) * len(str(new))


def _of_indent(value: Any, width: Any = 4, *_: Any) -> int:
    wide = width if isinstance(width, int) else len(str(width))
    return len(str(value)) + (str(value).count("\n") + 1) * wide


def _of_wrap(value: Any, width: int = 79, _: bool = True, wrapstring: str | None = None) -> int:
    return len(str(value)) * (1 + len(wrapstring or "") // max(width, 1))


def _of_json(value: Any, *_: Any, indent: Any = None) -> int:
    wide = indent if isinstance(indent, int) else len(str(indent or ""))
    return measure(value) * max(wide, 1) if wide > 16 else wide


def _of_items(value: Any, number: int, *_: Any) -> int:
    return measure(value) + _ITEM * number


def _of_places(_: Any, precision: int = 0, *__: Any) -> int:
    return 0 if abs(precision) <= _DIGITS else LARGEST + 1


def _of_format(value: Any, *given: Any, **named: Any) -> int:
    _check_percent(str(value), named or given)
    return 0


_GROWING: Mapping[str, Callable[..., int]] = {
    "batch": _of_items,
    "center": lambda _, width=80: width,
    "format": _of_format,
    "indent": _of_indent,
    "join": _of_join,
    "replace": _of_replace,
    "round": _of_places,
    "slice": _of_items,
    "to_json": _of_json,
    "tojson": lambda value, indent=None: _of_json(value, indent=indent),
    "wordwrap": _of_wrap,
}


def bounded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The filter `function`, which refuses to make too much."""
    # Those that Jinja gives its environment or context have it as their first argument.
    first = 1 if hasattr(function, "jinja_pass_arg") else 0

    @wraps(function)
    def filtered(*arguments: Any, **named: Any) -> Any:
        given = arguments[first:]
        measure(*given, *named.values())
        # `join` may get a generator, which only becomes a list when it is read.
        if name == "join" and given and not isinstance(given[0], Mapping | str | list | tuple):
            given = (list(given[0]), *given[1:])
        size = _GROWING.get(name)
        if size is not None:
            with suppress(TypeError):  # wrong arguments: the filter itself says so
                check_size(size(*given, **named))
        value = function(*arguments[:first], *given, **named)
        if isinstance(value, str | int):
            measure(value)
        return value

    return filtered


def replaced(pattern: str, replacement: str, text: str) -> str:
    """`re.sub`, as long as what comes of it is not too large."""
    made = len(text)

    def one(found: re.Match[str]) -> str:
        nonlocal made
        put = found.expand(replacement)
        made += len(put)
        check_size(made)
        return put

    return re.sub(pattern, one, text)
