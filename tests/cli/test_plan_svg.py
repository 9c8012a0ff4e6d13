"""The picture of a plan as an SVG: what it holds, and that it can be read."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from orchestrator import Plan
from orchestrator.cli.plan_svg import DARK, INK, LIGHT, MIXED, STRIPS, cell_colour, plan_svg
from orchestrator.planning.picture import picture
from orchestrator.planning.picture_layout import place
from orchestrator.planning.shapes import Drawing, Group, Rect, Shape, Text, fit, text_width
from orchestrator.topology.layout import GpuRank
from tests.cli.plans import CASES, case, rack
from tests.planning.builders import make_plan

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(params=CASES)
def plan(request: pytest.FixtureRequest, tmp_path: Path) -> Plan:
    return case(tmp_path, request.param)


def _tips(svg: str) -> list[str]:
    groups = ET.fromstring(svg).iter(f"{SVG}g")
    return [str(group.findtext(f"{SVG}title")) for group in groups if group.get("class") == "gpu"]


def _texts(element: ET.Element) -> list[str]:
    return [str(text.text) for text in element.iter(f"{SVG}text")]


def _said(name: str, value: int, tip: str) -> bool:
    return re.search(rf"\b{name} {value}\b", tip) is not None


def test_every_gpu_of_the_plan_appears_once_with_its_ranks(plan: Plan) -> None:
    tips = [tip for tip in _tips(plan_svg(plan)) if not tip.endswith("not used")]
    assert len(tips) == sum(len(node.gpus) for node in plan.nodes)
    for node in plan.nodes:
        sizes = plan.layout.sizes.get(node.role) or plan.layout.first_sizes
        for rank in node.ranks:
            (tip,) = [t for t in tips if t.startswith(f"{node.host} GPU {rank.gpu}:")]
            assert _said("replica", node.replica, tip)
            assert _said("world rank", rank.world, tip)
            for name, value, size in _ranks(rank, sizes):
                assert _said(name, value, tip) == (size > 1), tip


def _ranks(rank: GpuRank, sizes: object) -> list[tuple[str, int, int]]:
    names = {"DP": "data", "PP": "pipeline", "TP": "tensor"}
    values = {"DP": rank.dp, "PP": rank.pp, "TP": rank.tp}
    return [(name, values[name], int(getattr(sizes, size))) for name, size in names.items()]


def test_the_ranks_stand_in_or_over_the_cell_and_not_only_in_what_a_mouse_finds(
    tmp_path: Path,
) -> None:
    root = ET.fromstring(plan_svg(case(tmp_path, "pipeline over two hosts")))
    cells = [group for group in root.iter(f"{SVG}g") if group.get("class") == "gpu"]
    assert _texts(cells[0]) == ["GPU 0", "#0", "TP 0"]
    assert _texts(cells[15]) == ["GPU 7", "#15", "TP 7"]
    assert {"PP 0 · layers 0-30", "PP 1 · layers 31-60", "rank 1 · worker"} <= {*_texts(root)}


def test_a_stage_on_each_gpu_shows_its_layers_in_the_cell(tmp_path: Path) -> None:
    root = ET.fromstring(plan_svg(case(tmp_path, "a stage on each GPU")))
    cells = [group for group in root.iter(f"{SVG}g") if group.get("class") == "gpu"]
    assert _texts(cells[0]) == ["GPU 0", "#0", "PP 0", "L 0-2"]
    assert _texts(cells[-1]) == ["GPU 7", "#15", "PP 15", "L 58-60"]


def test_every_endpoint_has_its_chip_and_an_arrow(plan: Plan) -> None:
    root = ET.fromstring(plan_svg(plan))
    chips = [group for group in root.iter(f"{SVG}g") if group.get("class") == "endpoint"]
    told = sorted(str(chip.findtext(f"{SVG}title")).split(" ")[0] for chip in chips)
    assert told == sorted(end.url for end in plan.endpoints)
    heads = [path for path in root.iter(f"{SVG}path") if path.get("class") == "wire-head"]
    assert len(heads) == len(plan.endpoints)


def test_router_and_kv_store_are_drawn_with_arrows(tmp_path: Path) -> None:
    root = ET.fromstring(plan_svg(case(tmp_path, "router and KV store")))
    texts = _texts(root)
    assert "router on node18, http://10.1.0.18:30080, round_robin → 16 endpoints" in texts
    assert "KV store master on node01, port 50051" in texts
    assert "KV store on node01 … node16 (16 hosts), port 8080" in texts
    assert "KV store master · KV store · 10.1.0.1" in texts
    assert "router · 10.1.0.18" in texts
    assert len([p for p in root.iter(f"{SVG}path") if p.get("class") == "dash-head"]) == 16


def test_unused_gpus_and_hosts_left_over_are_shown_greyed(tmp_path: Path) -> None:
    svg = plan_svg(case(tmp_path, "seven replicas on two hosts"))
    assert [t for t in _tips(svg) if t.endswith("not used")] == [
        "GPU 6: not used",
        "GPU 7: not used",
    ]
    left = plan_svg(case(tmp_path, "a host left over"))
    assert len([t for t in _tips(left) if t.endswith("not used")]) == 8
    assert left.count('class="cell free"') == 8 + 1  # and one in the legend
    assert "16 of 24 GPUs on 2 of 3 hosts" in left


def test_gpus_that_the_inventory_keeps_back_are_not_drawn(tmp_path: Path) -> None:
    tips = _tips(plan_svg(case(tmp_path, "half of each host")))
    assert len(tips) == 8
    assert not [tip for tip in tips if "GPU 4" in tip]


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    count, variables, selection = CASES["8 replicas over 33 hosts"]
    first, second = (make_plan(tmp_path, rack(count, variables), **selection) for _ in range(2))
    assert plan_svg(first) == plan_svg(second)


def test_names_are_escaped_and_what_xml_forbids_is_replaced(tmp_path: Path) -> None:
    plan = case(tmp_path, "pipeline over two hosts")
    name = "<script>&\"'\x00\x1b\ufffe"
    hostile = replace(plan, name=name, recipe=name, hardware=name)
    root = ET.fromstring(plan_svg(hostile))
    assert str(root.findtext(f"{SVG}title")).startswith("<script>&\"'\ufffd\ufffd\ufffd: ")
    assert "script" not in {element.tag.removeprefix(SVG) for element in root.iter()}


def test_nothing_is_fetched_and_nothing_runs(plan: Plan) -> None:
    svg = plan_svg(plan)
    root = ET.fromstring(svg)
    kinds = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert kinds <= {"svg", "title", "desc", "style", "g", "rect", "text", "path"}
    style = str(root.findtext(f"{SVG}style"))
    assert "url(" not in style and "@import" not in style and "@font-face" not in style
    attributes = {name for element in root.iter() for name in element.attrib}
    assert not [name for name in attributes if "href" in name or name.startswith("on")]


def test_secrets_are_absent(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, rack(2), env={"HF_TOKEN": "hf_verysecret"})
    assert plan.nodes[0].shown_env["HF_TOKEN"] != "hf_verysecret"  # it is there, as a secret
    assert "verysecret" not in plan_svg(plan)


def _flat(shapes: tuple[Shape, ...]) -> list[Shape]:
    out: list[Shape] = []
    for shape in shapes:
        out += _flat(shape.shapes) if isinstance(shape, Group) else [shape]
    return out


def _drawing(plan: Plan) -> Drawing:
    return place(picture(plan), "a title that is rather long " * 6, ["and more about it"])


def test_no_text_leaves_the_page_and_no_two_texts_of_a_line_overlap(plan: Plan) -> None:
    drawing = _drawing(plan)
    lines: dict[float, list[tuple[float, float, str]]] = {}
    for shape in _flat(drawing.shapes):
        if isinstance(shape, Text) and shape.text:
            width = text_width(shape.text, shape.size)
            back = {"start": 0.0, "middle": width / 2, "end": width}[shape.anchor]
            left = shape.x - back
            assert left >= 0 and left + width <= drawing.width, shape
            assert 0 < shape.y < drawing.height, shape
            lines.setdefault(round(shape.y, 1), []).append((left, left + width, shape.text))
    for texts in lines.values():
        ordered = sorted(texts)
        for (_, right, text), (left, _, following) in pairwise(ordered):
            assert right <= left + 0.5, (text, following)


def test_no_two_hosts_and_no_two_gpus_overlap(plan: Plan) -> None:
    rects = [shape for shape in _flat(_drawing(plan).shapes) if isinstance(shape, Rect)]
    for kind in ("host", "cell", "strip", "chip"):
        same = [rect for rect in rects if rect.style.split()[0] == kind]
        assert same
        for index, one in enumerate(same):
            for other in same[index + 1 :]:
                apart = (
                    one.x + one.width <= other.x
                    or other.x + other.width <= one.x
                    or one.y + one.height <= other.y
                    or other.y + other.height <= one.y
                )
                assert apart, (one, other)


def test_text_fits_by_the_first_variant_that_does() -> None:
    assert fit(["replica 0, rank 0", "r0 n0"], 200, 10) == "replica 0, rank 0"
    assert fit(["replica 0, rank 0", "r0 n0"], 40, 10) == "r0 n0"
    assert fit(["a-very-long-host-name"], 60, 10).endswith("…")
    assert text_width(fit(["a-very-long-host-name"], 60, 10), 10) <= 60


def _luminance(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_every_ink_is_readable_on_its_ground_by_day_and_by_night() -> None:
    """4.5 is what WCAG 2 asks of small text."""
    for hue, (strip, ink) in enumerate(STRIPS):
        assert _contrast(strip, ink) >= 4.5, strip
        for scheme in ("light", "dark"):
            for tone in (0, 1):
                assert _contrast(cell_colour(hue, tone, scheme), INK[scheme]) >= 4.5, (
                    strip,
                    scheme,
                )
    assert _contrast(MIXED, STRIPS[0][1]) >= 4.5
    for colours in (LIGHT, DARK):
        for ground in ("page", "host", "frame", "free"):
            assert _contrast(colours[ground], colours["dim"]) >= 4.5, ground
            assert _contrast(colours[ground], colours["ink"]) >= 4.5, ground
        assert _contrast(colours["chip"], colours["chip-text"]) >= 4.5
        assert _contrast(colours["page"], colours["wire"]) >= 3
