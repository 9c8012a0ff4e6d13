"""Shapes of a drawing as data: where what is, in pixels, and of which style. No medium."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Anchor = Literal["start", "middle", "end"]


@dataclass(frozen=True, slots=True)
class Rect:
    """A box; `style` is one or several names of styles."""

    x: float
    y: float
    width: float
    height: float
    style: str
    radius: float = 0


@dataclass(frozen=True, slots=True)
class Text:
    """One line of text; `y` is its baseline."""

    x: float
    y: float
    text: str
    size: float
    style: str
    anchor: Anchor = "start"


@dataclass(frozen=True, slots=True)
class Path:
    """Straight lines from point to point; filled when its style says so."""

    points: tuple[tuple[float, float], ...]
    style: str


@dataclass(frozen=True, slots=True)
class Group:
    """Shapes that are one thing, and what is told of it when it is pointed at."""

    style: str
    tip: str
    shapes: tuple[Shape, ...]


Shape = Rect | Text | Path | Group


@dataclass(frozen=True, slots=True)
class Drawing:
    """A page of shapes, drawn in order. `title` and `description` say what it shows."""

    width: float
    height: float
    title: str
    description: str
    shapes: tuple[Shape, ...]


def text_width(text: str, size: float) -> float:
    """How wide a line of sans-serif text may get: an upper estimate, as fonts differ."""
    return size * sum(map(_char_width, text))


def _char_width(char: str) -> float:
    if unicodedata.east_asian_width(char) in "WF":
        return 1.05
    if char in "iljtfrI.,:;|!'()[]/- ·":
        return 0.4
    if char in "mwMW@…→":
        return 0.95
    return 0.72 if char.isupper() else 0.61


def fit(variants: Sequence[str], width: float, size: float) -> str:
    """The first of `variants` that fits, else what fits of the last one."""
    for text in variants:
        if text_width(text, size) <= width:
            return text
    text = variants[-1]
    while text and text_width(text + "…", size) > width:
        text = text[:-1]
    return text + "…" if text else ""


def arrow_down(x: float, tip: float, start: float, style: str) -> tuple[Path, Path]:
    """A line from `start` down to `tip` with a head of 5 by 6 pixels."""
    head = ((x - 4.5, tip - 7), (x + 4.5, tip - 7), (x, tip))
    return Path(((x, start), (x, tip - 6)), style), Path(head, f"{style}-head")
