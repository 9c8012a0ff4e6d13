"""Which strategies fit which hosts, best first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator import Catalog, Deployment, Inventory
from orchestrator.errors import InputError
from orchestrator.planning.suggest import Suggestion, suggest

KIMI, LLAMA = "moonshotai/Kimi-K2.6", "meta-llama/Llama-3.3-70B-Instruct"


def rack(directory: Path, hosts: int, hardware: str) -> Inventory:
    lines = [f"    node{n:02}: {{ansible_host: 10.1.0.{n}}}" for n in range(1, hosts + 1)]
    path = directory / "inventory.yml"
    head = f"all:\n  vars: {{orc_hardware: {hardware}, orc_interface: bond0}}\n  hosts:\n"
    path.write_text(head + "\n".join(lines) + "\n")
    return Inventory.load(path)


def found(directory: Path, hosts: int, hardware: str, **selection: Any) -> list[Suggestion]:
    deployment = Deployment.model_validate(selection)
    return suggest(rack(directory, hosts, hardware), Catalog.load(), deployment)


# (hosts, hardware, selection) -> the first ones that fit, as (strategy, nodes, replicas,
# endpoints); how many fit; a part of the reason why one does not.
CASES: list[tuple[str, int, str, dict[str, Any], list[tuple[Any, ...]], int, dict[str, str]]] = [
    (
        "weights that one host cannot hold",
        4,
        "h100",
        {"recipe": KIMI, "variant": "fp8"},
        [("multi_node_tp", 2, 2, 2), ("multi_node_tp_pp", 2, 2, 2), ("multi_node_tep", 2, 2, 2)],
        5,
        {
            "single_node_tp": "weights 110.6 at least",
            "single_node_dep": "weights 110.6 at least",
        },
    ),
    (
        "a model that one host holds with room",
        4,
        "h200",
        {"recipe": LLAMA},
        [("single_node_tp", 1, 4, 4), ("multi_node_tp_pp", 2, 2, 2), ("multi_node_tp", 2, 2, 2)],
        3,
        {},
    ),
    (
        "one host alone",
        1,
        "h200",
        {"recipe": LLAMA},
        [("single_node_tp", 1, 1, 1)],
        1,
        {"multi_node_tp": "1 replica x 2 nodes = 2 hosts, but 1 is there"},
    ),
    (
        "nodes that the user fixed",
        8,
        "h100",
        {"recipe": KIMI, "nodes": 4},
        [("multi_node_tp", 4, 2, 2)],
        4,
        {"single_node_tp": "runs on one node, but nodes = 4"},
    ),
    (
        "sizes that the user fixed",
        2,
        "h200",
        {"recipe": LLAMA, "parallel": {"tensor": 3}},
        [],
        0,
        {"single_node_tp": "64 attention heads"},
    ),
]


@pytest.mark.parametrize(
    ("hosts", "hardware", "selection", "first", "fitting", "reasons"),
    [pytest.param(*case[1:], id=case[0]) for case in CASES],
)
def test_strategies_that_fit_come_first_and_the_others_say_why_not(
    tmp_path: Path,
    hosts: int,
    hardware: str,
    selection: dict[str, Any],
    first: list[tuple[Any, ...]],
    fitting: int,
    reasons: dict[str, str],
) -> None:
    all_found = found(tmp_path, hosts, hardware, **selection)
    shown = [(s.strategy, s.nodes, s.replicas, s.endpoints) for s in all_found]
    assert shown[: len(first)] == first
    assert [s.fits for s in all_found] == [True] * fitting + [False] * (len(all_found) - fitting)
    for strategy, part in reasons.items():
        (one,) = [s for s in all_found if s.strategy == strategy]
        assert one.reason and part in one.reason


def test_the_recipes_recommendation_is_marked_once(tmp_path: Path) -> None:
    marked = [s.strategy for s in found(tmp_path, 4, "h200", recipe=LLAMA) if s.recommended]
    assert marked == ["single_node_tp"]


def test_memory_short_by_estimate_comes_after_what_has_room(tmp_path: Path) -> None:
    fitting = [s for s in found(tmp_path, 4, "h100", recipe=KIMI) if s.fits]
    assert [s.short for s in fitting] == sorted(s.short for s in fitting)
    assert fitting[-1].headroom is not None and fitting[-1].headroom < 0


def test_pools_grow_until_they_have_room(tmp_path: Path) -> None:
    (pools,) = [s for s in found(tmp_path, 4, "h100", recipe=KIMI) if s.strategy == "pd_cluster"]
    assert (pools.nodes, pools.short, pools.router) == (4, False, True)
    assert set(pools.sizes) == {"prefill", "decode"}


def test_what_is_suggested_can_be_planned_as_it_stands(tmp_path: Path) -> None:
    from orchestrator import plan

    inventory, catalog = rack(tmp_path, 4, "h100"), Catalog.load()
    for one in suggest(inventory, catalog, Deployment(recipe=KIMI)):
        asked: dict[str, Any] = {"recipe": KIMI, "strategy": one.strategy, "nodes": one.nodes}
        if one.strategy == "pd_cluster":
            asked["pools"] = {"prefill": one.nodes // 2, "decode": one.nodes // 2}
        asked["replicas"] = one.replicas
        result = plan(inventory, catalog, Deployment.model_validate(asked))
        assert len(result.endpoints) == one.endpoints


def test_an_unknown_recipe_is_an_error_as_it_is_without_suggestions(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no recipe"):
        found(tmp_path, 1, "h200", recipe="no/such")
