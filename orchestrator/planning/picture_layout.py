"""Where everything of a picture stands: hosts in rows, and the lines from the router to them.

A source (router, or clients) stands at the top left. Its line runs down the left margin, turns
into the space above a row of hosts, and ends at every endpoint of that row: lines never cross a
host, however many there are. Those of the KV store run down the right margin, dashed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.planning.host_shapes import CHIP, HUES, Measure, host_shapes, measure
from orchestrator.planning.picture import Block, Picture
from orchestrator.planning.shapes import (
    Drawing,
    Group,
    Path,
    Rect,
    Shape,
    Text,
    arrow_down,
    fit,
    text_width,
)

_MARGIN = 24.0
_GUTTER = 22.0  # left and right of the hosts, for the lines
_GAP = 14.0
_LANE = 40.0  # above a row of hosts whose endpoints are reached from there
_FRAME = 12.0
_FRAME_TITLE = 24.0
_ASPECT = 1.6  # of a screen


@dataclass(frozen=True, slots=True)
class _Placed:
    """A block in the grid: the columns it takes, and its hosts' rows."""

    block: Block
    columns: int

    @property
    def rows(self) -> int:
        return -(-len(self.block.hosts) // self.columns)


_Bands = list[list[_Placed]]  # blocks side by side


def place(picture: Picture, title: str, lines: Sequence[str]) -> Drawing:
    """The drawing of `picture` under `title` and further lines of text."""
    m = measure(picture)
    lanes = bool(picture.endpoints)
    bands = _best_bands(picture.blocks, m)
    width = max(_width(bands, m), 560.0)
    right = _MARGIN + _GUTTER + width
    shapes: list[Shape] = []
    sources: list[Shape] = []
    y = start = _MARGIN + 18
    room = width + 2 * _GUTTER
    for index, piece in enumerate(_wrapped(title, room, 20)):
        y += 26 if index else 0
        shapes.append(Text(_MARGIN, y, piece, 20, "title"))
    for line in lines:
        for piece in _wrapped(line, room, 13):
            y += 20
            shapes.append(Text(_MARGIN, y, piece, 13, "dim"))
    y += 16
    if lanes:
        start = y
        sources, y = _sources(picture, y, right)
        y += 14
    frames, hosts, reached, y = _bands_shapes(picture, bands, y, m)
    shapes += [*frames, *_wires(picture, reached, start, right), *sources, *hosts]
    legend, y = _legend(picture, y + 18, room)
    shapes += legend
    page = right + _GUTTER + _MARGIN
    height = y + _MARGIN - 6
    description = " ".join(lines)
    return Drawing(
        page, height, title, description, (Rect(0, 0, page, height, "page", 10), *shapes)
    )


def _best_bands(blocks: Sequence[Block], m: Measure) -> _Bands:
    """The number of columns that comes nearest to a screen's form."""
    count = sum(len(block.hosts) for block in blocks)
    most = max(4, math.isqrt(count))
    widest = 1900 if count <= 64 else 3800  # what a screen shows at full or at half size
    cap = next((c for c in range(most, 1, -1) if c * (m.host_width + _GAP) <= widest), 1)
    tried = [_bands(blocks, columns) for columns in range(1, min(cap, max(count, 1)) + 1)]

    def off(bands: _Bands) -> float:
        height = sum(max(p.rows for p in band) * (m.host_height + 24) + 50 for band in bands)
        return abs(math.log(_width(bands, m) / (height + 200) / _ASPECT))

    return min(tried, key=off)


def _bands(blocks: Sequence[Block], columns: int) -> _Bands:
    bands: _Bands = []
    free = 0
    for block in blocks:
        rows = -(-len(block.hosts) // columns)
        placed = _Placed(block, -(-len(block.hosts) // rows))
        if not bands or placed.columns > free or block.kind != "replica":
            bands.append([])
            free = columns
        bands[-1].append(placed)
        free -= placed.columns
    return bands


def _width(bands: _Bands, m: Measure) -> float:
    widths = [
        sum(_block_width(placed, m) for placed in band) + _GAP * (len(band) - 1) for band in bands
    ]
    return max(widths, default=0.0)


def _block_width(placed: _Placed, m: Measure) -> float:
    frame = 0 if placed.block.kind == "single" else 2 * _FRAME
    return placed.columns * (m.host_width + _GAP) - _GAP + frame


@dataclass(frozen=True, slots=True)
class _Reached:
    """Where a line ends: at an endpoint's chip, in the space above a row of hosts."""

    x: float
    host_top: float
    host_right: float


def _bands_shapes(
    shown: Picture, bands: _Bands, y: float, m: Measure
) -> tuple[list[Shape], list[Shape], list[_Reached], float]:
    frames: list[Shape] = []
    boxes: list[Shape] = []
    reached: list[_Reached] = []
    several = len({node.replica for host in shown.hosts for node in host.nodes}) > 1
    for band in bands:
        framed = any(placed.block.kind != "single" for placed in band)
        tops = _row_tops(band, y + (_FRAME_TITLE if framed else 0), m)
        last_height = max(_height(placed.block, m) for placed in band)
        bottom = tops[-1] + last_height + (_FRAME if framed else 0)
        x = _MARGIN + _GUTTER
        for placed in band:
            width = _block_width(placed, m)
            inner = x
            if placed.block.kind != "single":
                last = tops[placed.rows - 1] + _height(placed.block, m) + _FRAME
                frames += _frame(placed.block, x, y, width, last - y)
                inner += _FRAME
            for index, host in enumerate(placed.block.hosts):
                row, column = divmod(index, placed.columns)
                left, top = inner + column * (m.host_width + _GAP), tops[row]
                shapes, chips = host_shapes(
                    host, left, top, m, shared=placed.block.kind == "single" and several
                )
                boxes += shapes
                reached += [_Reached(at, top, left + m.host_width) for at, _ in chips]
            x += width + _GAP
        y = bottom + _GAP
    return frames, boxes, reached, y - _GAP


def _row_tops(band: Sequence[_Placed], y: float, m: Measure) -> list[float]:
    """Where each row of hosts begins: lower where lines run above it."""
    tops: list[float] = []
    for row in range(max(placed.rows for placed in band)):
        served = any(
            node.port is not None
            for placed in band
            for host in placed.block.hosts[row * placed.columns : (row + 1) * placed.columns]
            for node in host.nodes
        )
        y += _LANE if served else _GAP if row else 8
        tops.append(y)
        y += max(_height(placed.block, m) for placed in band)
    return tops


def _height(block: Block, m: Measure) -> float:
    return m.idle_height if block.kind == "unused" else m.host_height


def _frame(block: Block, x: float, y: float, width: float, height: float) -> list[Shape]:
    style = "frame idle" if block.kind == "unused" else "frame"
    title = fit([block.title, block.title.partition(":")[0]], width - 2 * _FRAME, 13)
    return [
        Rect(x, y, width, height, style, 10),
        Text(x + _FRAME, y + 19, title, 13, "frame-title"),
    ]


def _sources(picture: Picture, y: float, right: float) -> tuple[list[Shape], float]:
    """Where the lines begin: router or clients on the left, the KV store on the right."""
    store = [service.text for service in picture.stores]
    count = len(picture.endpoints)
    lines = [f"{picture.source} → {count} endpoint{'s' * (count > 1)}"]
    room = (right - _MARGIN + _GUTTER) / (2 if store else 1) - 8
    shapes = _source_box(lines, _MARGIN, y, room, "start")
    if store:
        shapes += _source_box(store, right + _GUTTER, y, room, "end")
    return shapes, y + 10 + 17 * max(len(lines), len(store))


def _source_box(lines: Sequence[str], x: float, y: float, room: float, anchor: str) -> list[Shape]:
    texts = [fit([line], room - 24, 12.5) for line in lines]
    width = max(text_width(text, 12.5) for text in texts) + 24
    left = x if anchor == "start" else x - width
    shapes: list[Shape] = [Rect(left, y, width, 10 + 17 * len(texts), "source", 7)]
    for index, text in enumerate(texts):
        shapes.append(Text(left + 12, y + 18 + 17 * index, text, 12.5, "strong plain"))
    return shapes


def _wires(
    picture: Picture, reached: Sequence[_Reached], start: float, right: float
) -> list[Shape]:
    rows: dict[float, list[_Reached]] = {}
    for end in reached:
        rows.setdefault(end.host_top, []).append(end)
    if not rows:
        return []
    trunk, far = _MARGIN + 10, right + _GUTTER - 10
    last = max(rows) - 24
    shapes: list[Shape] = [Path(((trunk, start), (trunk, last)), "wire")]
    if picture.stores:
        shapes.append(Path(((far, start), (far, last - 6)), "dash"))
    for top, ends in rows.items():
        lane = top - 24
        shapes.append(Path(((trunk, lane), (max(end.x for end in ends), lane)), "wire"))
        for end in ends:
            shapes += arrow_down(end.x, top - CHIP / 2, lane, "wire")
        if picture.stores:
            rights = sorted({end.host_right - 18 for end in ends})
            shapes.append(Path(((far, lane - 6), (rights[0], lane - 6)), "dash"))
            for x in rights:
                shapes += arrow_down(x, top, lane - 6, "dash")
    return shapes


def _legend(picture: Picture, y: float, width: float) -> tuple[list[Shape], float]:
    """What the colours, numbers and lines mean."""
    items: list[tuple[str, str]] = [
        (f"cell hue{index}-0", name) for index, name in enumerate(picture.hues[:HUES])
    ]
    if len(picture.hues) > HUES:
        kind = picture.hues[0].rsplit(" ", 1)[0]
        items = [("cell hue0-0", f"one colour for each {kind}, repeated after {HUES}: read labels")]
    if any(cell.rank is None for host in picture.hosts for cell in host.cells):
        items.append(("cell free", "GPU not used"))
    if picture.endpoints:
        items.append(("chip", "endpoint"))
    items.append(("", "in a cell: GPU number, #world rank in the replica, and below its ranks"))
    shapes: list[Shape] = []
    x = _MARGIN
    for style, text in items:
        box = 20 if style else 0
        need = box + text_width(text, 11.5) + 18
        if x > _MARGIN and x + need > _MARGIN + width:
            x, y = _MARGIN, y + 20
        if style:
            shapes.append(Rect(x, y, 14, 14, style, 7 if style == "chip" else 3))
        shapes.append(Text(x + box, y + 11, text, 11.5, "dim"))
        x += need
    return [Group("legend", "legend", tuple(shapes))], y + 20


def _wrapped(text: str, width: float, size: float) -> list[str]:
    lines: list[str] = []
    for word in text.split(" "):
        if lines and text_width(f"{lines[-1]} {word}", size) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return [fit([line], width, size) for line in lines]
