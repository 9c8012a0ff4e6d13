"""Boxes of text, side by side, in colour or not: lines are lists of spans of one colour."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_ASCII = str.maketrans("┌┐└┘─│├▶→…·", "++++-|+>>~.")


@dataclass(frozen=True, slots=True)
class Span:
    """Text in one colour, an ANSI code; None is the terminal's own."""

    text: str
    colour: str | None = None


Line = list[Span]


def rendered(lines: Sequence[Line], *, colour: bool, ascii_only: bool) -> str:
    """The lines as text; control characters, which could command a terminal, become `?`."""
    return "\n".join(_rendered(line, colour, ascii_only) for line in lines)


def _rendered(line: Line, colour: bool, ascii_only: bool) -> str:
    spans = [*line[:-1], *(Span(last.text.rstrip(), last.colour) for last in line[-1:])]
    out = []
    for span in spans:
        text = "".join(char if char.isprintable() else "?" for char in span.text)
        if ascii_only:
            text = text.translate(_ASCII).encode("ascii", "replace").decode()
        out.append(f"\x1b[{span.colour}m{text}\x1b[0m" if colour and span.colour else text)
    return "".join(out)


def box(title: str, lines: Sequence[Line], inner: int) -> list[Line]:
    """Lines in a box with a title in its upper edge; `inner` is the width of the text in it."""
    title = cut(title, inner - 2)
    return [
        [Span(f"┌─ {title} {'─' * (inner - len(title) - 2)}─┐")],
        *([Span("│ "), *padded(line, inner), Span(" │")] for line in lines),
        [Span(f"└{'─' * (inner + 2)}┘")],
    ]


def side_by_side(boxes: Sequence[list[Line]], width: int) -> Iterator[Line]:
    """Boxes next to each other as far as `width` allows, those of a row equally high."""
    at = 0
    while at < len(boxes):
        row, used = [boxes[at]], length(boxes[at][0])
        while at + len(row) < len(boxes):
            following = boxes[at + len(row)]
            used += 1 + length(following[0])
            if used > width:
                break
            row.append(following)
        height = max(map(len, row))
        even = [_stretched(member, height) for member in row]
        for index in range(height):
            line: Line = []
            for member in even:
                line += [*([Span(" ")] if line else []), *member[index]]
            yield line
        at += len(row)


def _stretched(lines: list[Line], height: int) -> list[Line]:
    empty: Line = [Span(f"│{' ' * (length(lines[0]) - 2)}│")]
    return [*lines[:-1], *([empty] * (height - len(lines))), lines[-1]]


def length(line: Line) -> int:
    """Columns that a line takes."""
    return sum(len(span.text) for span in line)


def padded(line: Line, width: int) -> Line:
    """The line at exactly `width` columns, cut or filled."""
    out, left = [], width
    for span in line:
        text = cut(span.text, left)
        out.append(Span(text, span.colour))
        left -= len(text)
    return [*out, Span(" " * left)]


def cut(text: str, width: int) -> str:
    """At most `width` columns of `text`; what is cut off is marked."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…" * (width > 0)


def wrapped(text: str, width: int) -> Iterator[Line]:
    """The words of `text` in lines of `width`, those after the first indented; none is split."""
    line = ""
    for word in text.split(" "):
        if line.strip() and len(line) + 1 + len(word) > width:
            yield [Span(line)]
            line = f"  {word}"
        else:
            line = f"{line} {word}" if line else word
    yield [Span(line)]
