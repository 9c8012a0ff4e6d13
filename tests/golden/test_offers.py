"""Every setting that a refusal names is planned when it is taken."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from orchestrator import Inventory, plan
from orchestrator.errors import InputError
from tests.golden.case import CASES, Case, catalog, inventory_of, selection
from tests.golden.test_properties import Fleet, Situation, inventory, many, situations

REFUSED = [  # for their sizes, and not for their hosts or ports
    path
    for path in CASES
    if path.stem.startswith("refused")
    and not isinstance(Case.read(path).content["hosts"], dict)
    and not {"held", "busy", "facts"} & Case.read(path).content.keys()
]
# Words of a refusal before the values of a setting. What "the model allows" is no setting here.
OFFERS = (
    (r"parallel\.(\w+) that divides \d+: ([\d, .]+)", None),
    (r"(nodes) that divides \d+: ([\d, .]+)", None),
    (r"decode contexts that work(?: \(at most \d+ here\))?: ([\d, .]+)", "decode_context"),
    (r"(?<!\w)data: (\d+)", "data"),
    (r"nodes: (\d+)\b(?! with)", "nodes"),
    (r"num_redundant_experts: (\d+)", "redundant"),
    (r"limit them with orc_gpus to (\d+) GPUs each", "orc_gpus"),
)
SIZES = r"(tensor|pipeline|data|prefill context|decode context) (\d+)"

Selection = dict[str, Any]


def named(hint: str) -> Iterator[tuple[str, Any]]:
    """What a refusal's hint names: (`sizes`, all of a replica) or (a setting, its value)."""
    here = re.search(r"on these hosts: (.*?\))(?= \(|$)", hint)
    for text in re.findall(r"(?:(?!; tensor|; prefill).)+ on \d+ nodes?", here[1] if here else ""):
        sizes = {name.replace(" ", "_"): int(size) for name, size in re.findall(SIZES, text)}
        if "decode tensor" in text:  # two pools, whose data parallel sizes are their own
            sizes.pop("data", None)
        nodes = re.search(r"on (\d+) node", text)
        yield "sizes", (sizes, int(nodes[1]) if nodes else 1)
    for pattern, setting in OFFERS:
        for found in re.finditer(pattern, hint):
            for value in re.findall(r"\d+", found[found.lastindex or 0]):
                yield setting or found[1], int(value)


def taken(asked: Selection, setting: str, value: Any) -> Selection:
    """The selection with what was named."""
    if setting == "sizes":
        sizes, nodes = value
        changed = asked | {"parallel": sizes}
        return changed | ({"nodes": nodes} if asked["strategy"].startswith("multi") else {})
    if setting == "nodes":
        return asked | {"nodes": value}
    if setting == "redundant":
        config = {"num_redundant_experts": value}
        return asked | {"args": asked.get("args", {}) | {"eplb-config": config}}
    return asked | {"parallel": asked.get("parallel", {}) | {setting: value}}


def with_gpus(hosts: list[int], most: int) -> list[int]:
    return [min(count, most) for count in hosts]


def refusal_of(found: Inventory, asked: Selection) -> InputError | None:
    try:
        plan(found, catalog(), selection(asked))
    except InputError as refusal:
        return refusal
    return None


def check(hosts: list[int], fleet: Inventory, asked: Selection, smaller: Any) -> int:
    """Plan what the refusal of `asked` names; how much that is."""
    refusal = refusal_of(fleet, asked)
    count = 0
    for setting, value in named((refusal.hint or "") if refusal else ""):
        count += 1
        if setting == "orc_gpus":
            again = refusal_of(smaller(with_gpus(hosts, value)), asked)
        else:
            again = refusal_of(fleet, taken(asked, setting, value))
        assert again is None, f"{refusal}\n{setting} = {value}: {again}"
    return count


@pytest.mark.parametrize("path", REFUSED, ids=lambda path: path.stem)
def test_what_a_golden_refusal_names_is_planned(path: Path, tmp_path: Path) -> None:
    case = Case.read(path)
    hosts = case.content["hosts"]
    counts = [8] * hosts if isinstance(hosts, int) else hosts
    variables = case.content.get("vars", {})
    fleet = inventory_of(counts, variables, tmp_path)
    check(
        counts,
        fleet,
        case.content["deploy"],
        lambda gpus: inventory_of(gpus, variables, tmp_path),
    )


@st.composite
def refused(draw: st.DrawFn) -> Situation:
    """As other situations, with sizes that are likelier wrong."""
    (hosts, hardware), asked = draw(situations())
    sizes = {
        "decode_context": st.sampled_from([2, 3, 4, 8]),
        "tensor": st.sampled_from([1, 2, 3, 6, 8, 12]),
        "pipeline": st.sampled_from([1, 2, 3, 5]),
        "data": st.sampled_from([2, 3, 5]),
        "prefill_context": st.sampled_from([2, 3]),
    }
    wrong = draw(st.sets(st.sampled_from(sorted(sizes)), max_size=2))
    asked["parallel"] |= {name: draw(sizes[name]) for name in sorted(wrong)}
    if draw(st.booleans()) and asked["recipe"] != "golden/dense":
        config = {"num_redundant_experts": draw(st.sampled_from([0, 1, 8]))}
        asked["args"] = {"enable-eplb": True, "eplb-config": config}
    return (hosts, hardware), asked


@many
@given(refused())
def test_what_a_refusal_names_is_planned(situation: Situation) -> None:
    (hosts, hardware), asked = situation

    def smaller(gpus: list[int]) -> Inventory:
        fleet: Fleet = (tuple(gpus), hardware)
        return inventory(fleet)

    count = check(list(hosts), inventory((hosts, hardware)), asked, smaller)
    event("settings named" if count else "none named")
