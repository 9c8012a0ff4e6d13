"""Host names as an inventory writes them: `node[01:16]`, `[a:c]`, `host:port`, IPv6 addresses."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from string import ascii_letters

MAX_HOSTS = 100_000  # of one range: a slip of a digit must not fill the memory

_BRACKETED_WITH_PORT = re.compile(r"\[(?P<name>.+)\]:(?P<port>\d+)")
_NAME_WITH_PORT = re.compile(r"(?P<name>(?:[^:\[\]]|\[[^\[\]]*\])+):(?P<port>\d+)")
_RANGE = re.compile(r"\[([^\[\]]*)\]")


def split_port(text: str) -> tuple[str, int | None]:
    """`node:2222` and `[2001:db8::1]:2222` as name and port; an IPv6 address alone has no port.

    Raises ValueError for a port that does not exist.
    """
    found = _BRACKETED_WITH_PORT.fullmatch(text) or _NAME_WITH_PORT.fullmatch(text)
    if found is None:
        return text, None
    port = int(found["port"])
    if not 1 <= port <= 65535:
        raise ValueError(f"{text!r}: a port is 1 to 65535, not {port}")
    return found["name"], port


def expand(pattern: str) -> list[str]:
    """Every name that `pattern` stands for; both ends of a range count.

    `node[01:03]` is node01, node02, node03 (the width of the first number is kept),
    `[a:c]` goes over letters, `[1:9:2]` by steps, and several ranges give every combination.
    Raises ValueError for a range that names nothing.
    """
    pieces = _RANGE.split(pattern)
    if any(bracket in piece for piece in pieces[::2] for bracket in "[]"):
        raise ValueError(f"{pattern!r}: a bracket is not closed; a range is [first:last]")
    choices: list[Sequence[str]] = []
    count = 1
    for position, piece in enumerate(pieces):
        choices.append([piece] if position % 2 == 0 else _range(piece, pattern, MAX_HOSTS // count))
        count *= len(choices[-1])
    return ["".join(parts) for parts in itertools.product(*choices)]


def _range(text: str, pattern: str, at_most: int) -> Sequence[str]:
    bounds = text.split(":")
    if len(bounds) not in (2, 3):
        raise ValueError(f"{pattern!r}: a range is [first:last] or [first:last:step]")
    first, last = bounds[0] or "0", bounds[1]
    step = bounds[2] if len(bounds) == 3 else "1"
    if not (step.isdecimal() and int(step) > 0):
        raise ValueError(f"{pattern!r}: a range's step is a whole number from 1 up, not {step!r}")
    if first.isdecimal() and last.isdecimal():
        return _numbers(first, last, int(step), pattern, at_most)
    if len(first) == len(last) == 1 and first in ascii_letters and last in ascii_letters:
        start, end = ascii_letters.index(first), ascii_letters.index(last)
        if start > end:
            raise ValueError(f"{pattern!r}: the range [{text}] ends before it begins")
        return ascii_letters[start : end + 1 : int(step)]
    raise ValueError(f"{pattern!r}: a range goes over numbers or single letters, not [{text}]")


def _numbers(first: str, last: str, step: int, pattern: str, at_most: int) -> list[str]:
    width = len(first) if len(first) > 1 and first.startswith("0") else 0
    if width and width != len(last):
        raise ValueError(f"{pattern!r}: {first} and {last} must have as many digits as each other")
    numbers = range(int(first), int(last) + 1, step)
    if not numbers:
        raise ValueError(f"{pattern!r}: the range [{first}:{last}] ends before it begins")
    if int(last) > 10**12 or len(numbers) > at_most:
        raise ValueError(f"{pattern!r} stands for more than {MAX_HOSTS} hosts")
    return [f"{number:0{width}d}" for number in numbers]
