"""A plan as a drawing of text: boxes of hosts with a column for each GPU.

Plain characters, so that it survives a pipe, a mail and a ticket; in colour on a terminal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from orchestrator.cli.plan_text import ranges, summary
from orchestrator.cli.text_boxes import Line, Span, box, cut, rendered, side_by_side, wrapped
from orchestrator.planning.launch_spec import LaunchSpec
from orchestrator.planning.picture import (
    DIMENSIONS,
    Block,
    Cell,
    HostBox,
    Picture,
    layers_text,
    picture,
    pool,
    span_text,
    totals,
)
from orchestrator.planning.plan import Plan

_FEW = 8  # hosts that are all drawn, though they be alike
_ENDPOINTS = 8  # that are listed one by one
_NARROWEST = 33  # columns of a host's text, so that its first line says what it must
_ANSI = ("34", "33", "32", "35", "36", "31", "93")  # by hue
_GREY = "90"


def plan_drawing(plan: Plan, width: int, *, colour: bool = False, ascii_only: bool = False) -> str:
    """The drawing of `plan` for a terminal of `width` columns.

    With more than 8 hosts, those that differ only in what counts on from host to host are drawn
    once and the others named, with what they hold.
    """
    shown = picture(plan)
    collapse = len(shown.hosts) > _FEW
    column = _column_width(shown)
    lines: list[Line] = []
    for text in (*summary(plan), totals(shown), *_layers(shown)):
        lines += wrapped(text, width)
    lines += [[], *_reached(shown, width)]
    for first, others in _replicas(shown.blocks, collapse):
        for block in first:
            lines.append([])
            if block.title:
                lines.append([Span(cut(block.title, width))])
            if block.kind == "unused":
                lines += _unused(block, width)
            else:
                lines += _block(block, column, width, collapse)
        if others:
            hosts = [host.name for blocks in others for block in blocks for host in block.hosts]
            numbers = ranges([blocks[0].hosts[0].nodes[0].replica for blocks in others])
            word = "replica" if len(others) == 1 else "replicas"
            lines += wrapped(f"{span_text(hosts)}: the same, {word} {numbers}", width)
    for note in plan.notes:
        lines += [[], *wrapped(f"note: {note}", width)]
    return rendered(lines, colour=colour, ascii_only=ascii_only)


def _layers(shown: Picture) -> Iterator[str]:
    if len({layers for _, layers in shown.stages}) > 1:
        stages = (f"{name}: {layers_text(layers)}" for name, layers in shown.stages)
        yield f"layers: {', '.join(stages)}"


def _reached(shown: Picture, width: int) -> Iterator[Line]:
    """What stands before the hosts: router or clients with their endpoints, and the KV store."""
    if shown.endpoints:
        yield [Span(cut(shown.source, width))]
        ends = [f"{end.url} {end.whose}".rstrip() for end in shown.endpoints]
        if len(ends) > _ENDPOINTS:
            rest = len(ends) - _ENDPOINTS + 1
            ends = [*ends[: _ENDPOINTS - 1], f"{rest} more, to {ends[-1]}"]
        for index, end in enumerate(ends):
            corner = "└" if index == len(ends) - 1 else "├"
            yield [Span(cut(f"  {corner}─▶ {end}", width))]
    for store in shown.stores:
        yield from wrapped(f"{store.text} ─▶ every endpoint", width)


def _unused(block: Block, width: int) -> Iterator[Line]:
    for (gpus, services), group in groupby(
        block.hosts, key=lambda host: (len(host.cells), host.services)
    ):
        names = [host.name for host in group]
        words = [f"  {span_text(names)}"]
        if gpus:
            words.append(f"{gpus} GPU{'s' * (gpus > 1)}{' each' * (len(names) > 1)}")
        if services:
            words.append(f"runs the {' and the '.join(services)}")
        yield [Span(cut(", ".join(words), width), _GREY)]


def _replicas(
    blocks: Sequence[Block], collapse: bool
) -> Iterator[tuple[list[Block], list[list[Block]]]]:
    """The blocks of each replica to draw, and those of the replicas that are just the same."""
    units = [list(group) for _, group in groupby(blocks, key=_replica)]
    for _, group in groupby(units, key=lambda unit: [_block_form(block) for block in unit]):
        first, *others = group
        if collapse and first[0].kind == "replica":
            yield first, others
        else:
            yield from ((unit, []) for unit in (first, *others))


def _replica(block: Block) -> tuple[str, int]:
    return (block.kind, block.hosts[0].nodes[0].replica if block.kind == "replica" else 0)


def _block_form(block: Block) -> object:
    """What stays the same when only the number of the replica and the hosts differ."""
    return tuple(
        tuple((cell.gpu, cell.rank, cell.node and _serving(cell.node)) for cell in host.cells)
        for host in block.hosts
    )


def _serving(node: LaunchSpec) -> tuple[object, ...]:
    return (node.rank, node.role, node.port)


def _host_form(host: HostBox) -> object:
    """What stays the same when replicas and ranks only count on from host to host."""
    first: dict[str, Cell] = {}
    form: list[tuple[object, ...]] = []
    for cell in host.cells:
        if cell.node is None:
            form.append((cell.gpu,))
            continue
        start = first.setdefault(cell.node.name, cell)
        steps = tuple(
            value - base for (_, value), (_, base) in zip(cell.labels, start.labels, strict=True)
        )
        replica = cell.node.replica - host.nodes[0].replica
        form.append((cell.gpu, steps, replica, cell.node.role, cell.node.port))
    return form


def _block(block: Block, column: int, width: int, collapse: bool) -> Iterator[Line]:
    boxes: list[list[Line]] = []
    for _, group in groupby(block.hosts, key=_host_form):
        first, *others = group
        boxes.append(_host_box(first, block, column, width))
        if collapse and len(others) > 1:
            yield from side_by_side(boxes, width)
            boxes = []
            yield from wrapped(_same(others), width)
        else:
            boxes += [_host_box(host, block, column, width) for host in others]
    yield from side_by_side(boxes, width)


def _same(hosts: Sequence[HostBox]) -> str:
    """`node03 … node32 (30 hosts): the same, ranks 2-31, DP 16-255`."""
    nodes = [node for host in hosts for node in host.nodes]
    words = [f"{span_text([host.name for host in hosts])}: the same"]
    replicas = sorted({node.replica for node in nodes})
    ranks = sorted({node.rank for node in nodes})
    if len(replicas) > 1:
        words.append(f"replicas {ranges(replicas)}")
    elif len(ranks) > 1:
        words.append(f"ranks {ranges(ranks)}")
    for name in DIMENSIONS:
        held = [tuple(v for c in host.cells for n, v in c.labels if n == name) for host in hosts]
        if len(set(held)) > 1:
            words.append(f"{name} {ranges(sorted({v for values in held for v in values}))}")
    return ", ".join(words)


def _host_box(host: HostBox, block: Block, column: int, width: int) -> list[Line]:
    """A host as a box no wider than `width`."""
    room = max(width - 4, 8)
    per_row = next((many for many in (8, 4, 2) if 5 + many * column <= room), 1)
    lines: list[Line] = []
    for at in range(0, len(host.cells), per_row):
        lines += _gpus(host.cells[at : at + per_row], block, column)
    columns = min(len(host.cells), per_row)
    inner = min(max(5 + columns * column, _NARROWEST), room)
    titles = [host.name]
    if host.address and host.address != host.name:
        titles.append(f"{titles[-1]} {host.address}")
    if host.services:
        titles.append(f"{titles[-1]} ─ {' + '.join(host.services)}")
    title = next((text for text in reversed(titles) if len(text) <= inner - 2), host.name)
    return box(title, lines, inner)


def _gpus(cells: Sequence[Cell], block: Block, column: int) -> Iterator[Line]:
    """A row of GPUs: a line of what they have in common, then one for each kind of number."""
    used = [cell for cell in cells if cell.node]
    hues = {cell.hue for cell in used}
    words = ", ".join(_common(used, block)) or "not used"
    yield [Span(words, _colour(used[0]) if len(hues) == 1 else None if used else _GREY)]
    for name, values in _rows(cells):
        spans = [
            Span(f"{value:>{column}}", _colour(cell))
            for value, cell in zip(values, cells, strict=True)
        ]
        yield [Span(f"{name:<5}"), *spans]


def _common(used: Sequence[Cell], block: Block) -> list[str]:
    """`replica 0, rank 1 worker, PP 1, L 31-60, ▶:8000`: what holds for all GPUs of the row."""
    nodes = list({cell.node.name: cell.node for cell in used if cell.node}.values())
    words = []
    if len({node.replica for node in nodes}) == 1 and block.kind == "single":
        words.append(f"replica {nodes[0].replica}")
    if len(nodes) == 1:
        node = nodes[0]
        words.append(f"{node.role} {node.rank}" if pool(node) else f"rank {node.rank} {node.role}")
    words += [f"{name} {value}" for name, value in _common_labels(used)]
    layers = {cell.layers for cell in used}
    if len(layers) == 1 and used[0].layers:
        words.append(f"L {layers_text(used[0].layers)}")
    ports = sorted({node.port for node in nodes if node.port is not None})
    return [*words, *([f"▶:{ranges(ports)}"] if ports else [])]


def _common_labels(used: Sequence[Cell]) -> list[tuple[str, int]]:
    return [
        label
        for label in (used[0].labels if used else ())
        if label[0] not in ("TP", "EP") and all(label in cell.labels for cell in used)
    ]


def _rows(cells: Sequence[Cell]) -> Iterator[tuple[str, list[str]]]:
    """The numbers of every GPU; a point stands where it has none."""
    used = [cell for cell in cells if cell.node]
    yield "GPU", [str(cell.gpu) for cell in cells]
    if not used:
        return
    if len({cell.node.replica for cell in used if cell.node}) > 1:
        yield "repl", [str(cell.node.replica) if cell.node else "·" for cell in cells]
    if len({pool(cell.node) for cell in used if cell.node}) > 1:
        yield "pool", [pool(cell.node)[:1].upper() if cell.node else "·" for cell in cells]
    if len({cell.node.rank for cell in used if cell.node}) > 1:
        yield "node", [str(cell.node.rank) if cell.node else "·" for cell in cells]
    yield "rank", [str(cell.rank.world) if cell.rank else "·" for cell in cells]
    common = {name for name, _ in _common_labels(used)}
    for name in DIMENSIONS:
        values = [next((str(v) for n, v in cell.labels if n == name), "·") for cell in cells]
        if name not in common and set(values) != {"·"}:
            yield name, values


def _colour(cell: Cell) -> str:
    return _ANSI[cell.hue % len(_ANSI)] if cell.node else _GREY


def _column_width(shown: Picture) -> int:
    """Wide enough for every number of the drawing, so that all boxes are alike."""
    cells = [cell for host in shown.hosts for cell in host.cells]
    numbers = [cell.gpu for cell in cells]
    numbers += [cell.rank.world for cell in cells if cell.rank]
    numbers += [node.replica for host in shown.hosts for node in host.nodes]
    return len(str(max(numbers, default=0))) + 1
