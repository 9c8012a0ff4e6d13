"""A plan as an SVG: one file, no fonts, no scripts, nothing fetched; readable by day and night."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from orchestrator.cli.plan_text import summary
from orchestrator.planning.picture import picture, totals
from orchestrator.planning.picture_layout import place
from orchestrator.planning.plan import Plan
from orchestrator.planning.shapes import Drawing, Group, Path, Rect, Shape, Text

# Okabe and Ito's colours, told apart with any colour vision, and the ink to write on them.
STRIPS = (
    ("#0072b2", "#ffffff"),
    ("#e69f00", "#101418"),
    ("#009e73", "#101418"),
    ("#cc79a7", "#101418"),
    ("#56b4e9", "#101418"),
    ("#d55e00", "#101418"),
    ("#f0e442", "#101418"),
)
MIXED = "#4f5b68"  # a strip over cells of several colours
INK = {"light": "#15191e", "dark": "#f4f6f8"}
_PAPER = {"light": "#ffffff", "dark": "#12161b"}
_SHARES = {"light": (0.20, 0.40), "dark": (0.28, 0.42)}  # of the colour in a cell, by tone
# The rest of the page, by day and by night.
LIGHT = {
    "page": "#ffffff",
    "ink": INK["light"],
    "dim": "#565f6a",
    "host": "#f6f8fa",
    "edge": "#aab2bd",
    "frame": "#ffffff",
    "frame-edge": "#8c96a3",
    "free": "#eceff2",
    "wire": "#3d4753",
    "chip": "#15191e",
    "chip-text": "#ffffff",
}
DARK = {
    "page": "#12161b",
    "ink": INK["dark"],
    "dim": "#a4afbb",
    "host": "#1b2129",
    "edge": "#4a5562",
    "frame": "#12161b",
    "frame-edge": "#6c7784",
    "free": "#242b33",
    "wire": "#b9c3ce",
    "chip": "#f4f6f8",
    "chip-text": "#12161b",
}
# What XML 1.0 cannot hold, even escaped.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def plan_svg(plan: Plan) -> str:
    """The picture of `plan` as an SVG document; the same plan gives the same bytes."""
    shown = picture(plan)
    lines = [f"{plan.strategy} on {plan.hardware}: {summary(plan)[1]}", totals(shown)]
    drawing = place(shown, f"{plan.name}: {plan.recipe}", lines)
    return "\n".join(_document(drawing)) + "\n"


def _document(drawing: Drawing) -> Iterator[str]:
    width, height = _number(drawing.width), _number(drawing.height)
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img">'
    )
    yield f"<title>{_text(drawing.title)}</title>"
    yield f"<desc>{_text(drawing.description)}</desc>"
    yield f"<style>\n{_style_sheet()}\n</style>"
    for shape in drawing.shapes:
        yield from _element(shape)
    yield "</svg>"


def _element(shape: Shape) -> Iterator[str]:
    style = f"class={quoteattr(shape.style)}"
    if isinstance(shape, Group):
        yield f"<g {style}><title>{_text(shape.tip)}</title>"
        for inner in shape.shapes:
            yield from _element(inner)
        yield "</g>"
    elif isinstance(shape, Rect):
        yield (
            f'<rect {style} x="{_number(shape.x)}" y="{_number(shape.y)}" '
            f'width="{_number(shape.width)}" height="{_number(shape.height)}" '
            f'rx="{_number(shape.radius)}"/>'
        )
    elif isinstance(shape, Text):
        anchor = "" if shape.anchor == "start" else f' text-anchor="{shape.anchor}"'
        if shape.text:
            yield (
                f'<text {style} x="{_number(shape.x)}" y="{_number(shape.y)}" '
                f'font-size="{_number(shape.size)}"{anchor}>{_text(shape.text)}</text>'
            )
    else:
        yield f'<path {style} d="{_path(shape)}"/>'


def _path(path: Path) -> str:
    points = [f"{_number(x)} {_number(y)}" for x, y in path.points]
    return "M" + "L".join(points) + ("Z" if path.style.endswith("-head") else "")


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _text(text: str) -> str:
    return escape(_FORBIDDEN.sub("�", text))


def cell_colour(hue: int, tone: int, scheme: str) -> str:
    """The fill of a GPU's cell: its replica's colour, thinned so that ink is readable on it."""
    share = _SHARES[scheme][tone]
    paper, colour = _PAPER[scheme], STRIPS[hue][0]
    mixed = (
        round(share * int(colour[at : at + 2], 16) + (1 - share) * int(paper[at : at + 2], 16))
        for at in (1, 3, 5)
    )
    return "#" + "".join(f"{part:02x}" for part in mixed)


def _style_sheet() -> str:
    """Light is the default; a viewer that asks for dark gets it. Renderers without media
    queries show light, on a page of its own, which reads on any background."""
    fonts = "system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif"
    rules = [
        f"text{{font-family:{fonts}}}",
        ".strong,.name,.title,.frame-title{font-weight:600}",
        ".host,.cell,.source{stroke-width:1}",
        ".frame{stroke-width:1.5}",
        ".idle,.free{stroke-dasharray:4 3}",
        ".wire,.dash{fill:none;stroke-width:1.6}",
        ".dash{stroke-dasharray:5 4}",
    ]
    rules += _colours("light")
    dark = "\n".join(_colours("dark"))
    return "\n".join([*rules, f"@media (prefers-color-scheme:dark){{\n{dark}\n}}"])


def _colours(scheme: str) -> list[str]:
    c = LIGHT if scheme == "light" else DARK
    rules = [
        f".page{{fill:{c['page']}}}",
        f".title,.name,.frame-title,.plain,.group{{fill:{c['ink']}}}",
        f".dim{{fill:{c['dim']}}}",
        f".ink{{fill:{INK[scheme]}}}",
        f".host{{fill:{c['host']};stroke:{c['edge']}}}",
        f".frame{{fill:{c['frame']};stroke:{c['frame-edge']}}}",
        f".free{{fill:{c['free']};stroke:{c['edge']}}}",
        f".source{{fill:{c['host']};stroke:{c['wire']}}}",
        f".wire,.dash{{stroke:{c['wire']}}}",
        f".wire-head,.dash-head{{fill:{c['wire']}}}",
        f".chip{{fill:{c['chip']}}}",
        f".mixed{{fill:{MIXED}}}",
        f".on-mixed{{fill:{STRIPS[0][1]}}}",
        f".chip-text{{fill:{c['chip-text']}}}",
    ]
    for hue, (strip, ink) in enumerate(STRIPS):
        rules.append(f".strip.hue{hue}{{fill:{strip}}}")
        rules.append(f".on-hue{hue}{{fill:{ink}}}")
        for tone in (0, 1):
            fill = cell_colour(hue, tone, scheme)
            rules.append(f".hue{hue}-{tone}{{fill:{fill};stroke:{strip}}}")
    return rules
