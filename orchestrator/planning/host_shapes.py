"""A host as shapes: its header, a strip for each container and tensor group, and its GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from orchestrator.planning.launch_spec import LaunchSpec
from orchestrator.planning.picture import (
    Cell,
    HostBox,
    Part,
    Picture,
    Segment,
    layers_text,
    pool,
    serves_at,
)
from orchestrator.planning.shapes import Group, Rect, Shape, Text, fit, text_width

PER_ROW = 8
CHIP = 17  # height of an endpoint's chip, half of which stands above the host
HUES = 7


@dataclass(frozen=True, slots=True)
class Measure:
    """Sizes in pixels: large with few hosts, small with many. All hosts of a picture are alike."""

    cell: float
    host_width: float
    host_height: float
    idle_height: float  # of a host of which no GPU is used, which needs no strips
    cell_height: float
    strip: float
    group_strip: float  # 0 when no tensor group has anything to say
    gap: float  # between containers
    pad: float
    header: float
    name_size: float
    strip_size: float
    rank_size: float
    small_size: float


def measure(picture: Picture) -> Measure:
    """The sizes at which every host of `picture` fits into the same box."""
    hosts = picture.hosts
    roomy = len(hosts) <= 8
    rows = [host.rows(PER_ROW) for host in hosts]
    parts = [part for host in rows for row in host for part in row]
    segments = [segment for part in parts for segment in part.segments]
    lines = max((len(cell_lines(s, c)) for s in segments for c in s.cells), default=0)
    grouped = any(_says(segment) for segment in segments)
    cell, strip_size, rank_size = (62.0, 12.0, 13.0) if roomy else (46.0, 10.0, 10.5)
    cell_height = (20 if roomy else 16) + lines * (rank_size + 3.5) + 4
    strip = strip_size + 8
    group_strip = strip_size + 7 if grouped else 0.0
    gap, pad, header = 8.0, 10.0, 32.0 if roomy else 29.0
    width = max((_row_width(row, cell, gap) for host in rows for row in host), default=0)
    row_height = strip + group_strip + cell_height + 6
    deepest = max((len(host) for host in rows), default=1)
    return Measure(
        cell=cell,
        host_width=max(width, 250 if roomy else 180) + 2 * pad,
        host_height=header + deepest * row_height + 4,
        idle_height=header + deepest * (cell_height + 8) + 2,
        cell_height=cell_height,
        strip=strip,
        group_strip=group_strip,
        gap=gap,
        pad=pad,
        header=header,
        name_size=14.5 if roomy else 11.5,
        strip_size=strip_size,
        rank_size=rank_size,
        small_size=10.0 if roomy else 8.5,
    )


def cell_lines(segment: Segment, cell: Cell) -> list[str]:
    """What stands in a GPU's cell under its numbers: its own ranks, and layers if they differ."""
    lines = [f"{name} {value}" for name, value in segment.own_labels(cell)]
    if cell.layers and segment.layers is None:
        lines.append(f"L {layers_text(cell.layers)}")
    return lines


def host_shapes(
    host: HostBox, x: float, y: float, m: Measure, shared: bool
) -> tuple[list[Shape], list[tuple[float, LaunchSpec]]]:
    """The host with its top left corner at `x`, `y`, and where its endpoints are reached.

    `shared`: strips say the replica, as the host's surroundings do not.
    """
    idle = not host.nodes
    height = m.idle_height if idle else m.host_height
    out: list[Shape] = [Rect(x, y, m.host_width, height, "host idle" if idle else "host", 8)]
    out += _header(host, x + m.pad, y, m, idle)
    chips: dict[str, tuple[float, float, LaunchSpec]] = {}
    top = y + m.header
    for row in host.rows(PER_ROW):
        left = x + m.pad
        for part in row:
            width = _part_width(part, m.cell, m.gap)
            out += _idle(part, left, top, m) if idle else _part(part, left, top, width, m, shared)
            if part.node and part.node.port is not None:
                chips.setdefault(part.node.name, (left, width, part.node))
            left += width + m.gap
        top += m.cell_height + 8 if idle else m.strip + m.group_strip + m.cell_height + 6
    reached = []
    for left, width, node in chips.values():
        shape, middle = _chip(left, width, y, node, m)
        out.append(shape)
        reached.append((middle, node))
    return out, reached


def _header(host: HostBox, x: float, y: float, m: Measure, idle: bool) -> Iterator[Shape]:
    width = m.host_width - 2 * m.pad
    baseline = y + m.header - 8
    name = fit([host.name], width, m.name_size)
    yield Text(x, baseline, name, m.name_size, "dim name" if idle else "name")
    left = width - text_width(name, m.name_size) - 10
    services = " · ".join(host.services)
    full = " · ".join([*host.services, *([host.address] if host.address else [])])
    variants = [full, services or host.address or "", ""]
    small = m.strip_size - 0.5
    yield Text(x + width, baseline, fit(variants, left, small), small, "dim", "end")


def _part(
    part: Part, x: float, y: float, width: float, m: Measure, shared: bool
) -> Iterator[Shape]:
    hues = {cell.hue % HUES for cell in part.cells}
    hue = f"hue{hues.pop()}" if len(hues) == 1 else "mixed"  # stages of one container differ
    yield Rect(x, y, width, m.strip, f"strip {hue}" if part.node else "strip free", 3)
    label = fit(_node_labels(part.node, shared), width - 8, m.strip_size)
    text_style = f"on-{hue}" if part.node else "dim"
    middle = x + width / 2
    yield Text(middle, y + m.strip - 5.5, label, m.strip_size, f"strong {text_style}", "middle")
    top = y + m.strip + 2
    for segment in part.segments:
        span = len(segment.cells) * m.cell - 2
        if _says(segment):
            text = fit(_segment_labels(segment), span - 4, m.strip_size)
            baseline = top + m.group_strip - 5.5
            yield Text(x + span / 2, baseline, text, m.strip_size, "group", "middle")
        for cell in segment.cells:
            yield _cell(segment, cell, x, top + m.group_strip, m)
            x += m.cell
        x += m.gap / 2


def _idle(part: Part, x: float, y: float, m: Measure) -> Iterator[Shape]:
    for segment in part.segments:
        for index, cell in enumerate(segment.cells):
            yield _cell(segment, cell, x + index * m.cell, y, m)


def _cell(segment: Segment, cell: Cell, x: float, y: float, m: Measure) -> Group:
    width = m.cell - 2
    tone = f"cell hue{cell.hue % HUES}-{cell.tone}" if cell.rank else "cell free"
    ink = "ink" if cell.rank else "dim"
    baseline = y + m.small_size + 4
    # The word GPU is left out where the cell is too small for it and for a rank of 4 digits.
    gpu = f"GPU {cell.gpu}" if m.small_size >= 10 else str(cell.gpu)
    shapes: list[Shape] = [
        Rect(x, y, width, m.cell_height, tone, 4),
        Text(x + 5, baseline, gpu, m.small_size, ink),
    ]
    if cell.rank:
        world = f"#{cell.rank.world}"
        shapes.append(Text(x + width - 4, baseline, world, m.small_size, ink, "end"))
    for index, line in enumerate(cell_lines(segment, cell)):
        at = baseline + (index + 1) * (m.rank_size + 3.5) + 1
        size = min(m.rank_size, m.rank_size * (width - 4) / text_width(line, m.rank_size))
        shapes.append(Text(x + width / 2, at, line, round(size, 1), "strong ink", "middle"))
    return Group("gpu", _tip(cell), tuple(shapes))


def _tip(cell: Cell) -> str:
    if cell.node is None or cell.rank is None:
        return f"GPU {cell.gpu}: not used"
    ranks = ", ".join(f"{name} {value}" for name, value in cell.labels)
    layers = f", layers {layers_text(cell.rank.layers)}" if cell.rank.layers else ""
    return (
        f"{cell.node.host} GPU {cell.gpu}: replica {cell.node.replica}, {_rank_of(cell.node)}, "
        f"world rank {cell.rank.world}{', ' if ranks else ''}{ranks}{layers}"
    )


def _rank_of(node: LaunchSpec) -> str:
    """`rank 1, worker`; the role leads where it names a pool."""
    return f"{node.role}, rank {node.rank}" if pool(node) else f"rank {node.rank}, {node.role}"


def _node_labels(node: LaunchSpec | None, shared: bool) -> list[str]:
    if node is None:
        return ["not used", "free", ""]
    within = (
        _rank_of(node).replace(", ", " · ") if pool(node) else f"rank {node.rank} · {node.role}"
    )
    full = f"replica {node.replica} · {within}"
    short = f"r{node.replica} n{node.rank}"
    named = f"replica {node.replica} · rank {node.rank}"
    if shared:
        return [full, named, short]
    return [within, f"rank {node.rank}", short]


def _says(segment: Segment) -> bool:
    return bool(segment.common) or segment.layers is not None


def _segment_labels(segment: Segment) -> list[str]:
    ranks = [f"{name} {value}" for name, value in segment.common]
    if segment.layers is None:
        return [" · ".join(ranks), " ".join(ranks)]
    layers = layers_text(segment.layers)
    return [
        " · ".join([*ranks, f"layers {layers}"]),
        " · ".join([*ranks, f"L {layers}"]),
        " ".join(ranks) or f"L {layers}",
    ]


def _chip(left: float, width: float, y: float, node: LaunchSpec, m: Measure) -> tuple[Group, float]:
    url = serves_at(node) or ""
    size = m.strip_size - 0.5
    text = fit([f":{node.port}"], width - 8, size)
    span = min(text_width(text, size) + 12, width)
    # A container of several GPUs leaves the host's name room by having its chip in the middle.
    middle = left + width / 2
    shapes = (
        Rect(middle - span / 2, y - CHIP / 2, span, CHIP, "chip", CHIP / 2),
        Text(middle, y + size * 0.36, text, size, "strong chip-text", "middle"),
    )
    return Group("endpoint", f"{url} ({node.served_model})", shapes), middle


def _part_width(part: Part, cell: float, gap: float) -> float:
    return len(part.cells) * cell - 2 + (len(part.segments) - 1) * gap / 2


def _row_width(row: tuple[Part, ...], cell: float, gap: float) -> float:
    return sum(_part_width(part, cell, gap) for part in row) + (len(row) - 1) * gap
