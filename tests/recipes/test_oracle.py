"""All renderings of the public site's snapshot, against ours (`make oracle`)."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

from orchestrator.recipes.catalog import Catalog
from tests.recipes import oracle

# Why the parallel and rank flags of some processes differ: each kind with its reason, and how
# many processes (or refused renderings) differ so, by strategy. A new difference fails.
START_RANK = "the head's start rank of 0 is said"
ONE_NODE = "a pool on one node has nobody to meet"
TENSOR_ONE = "a tensor size of 1 is vLLM's own default"
TOO_MANY = "the site's sizes need more GPUs than there are"
HEADLESS = "a worker behind an internal load balancer is headless"
CONTEXT = "refused: the decode context size does not divide the tensor size"
TOO_SMALL = "refused: the recipe's fixed sizes do not fit so many hosts"
REASONS = {
    START_RANK: "under hybrid load balancing every node has one; unsaid it is 0 too",
    ONE_NODE: "a start rank on a serving node, even 0, silently means hybrid load balancing",
    TENSOR_ONE: "it is left out beside data parallel",
    TOO_MANY: "the site says all GPUs as data-parallel ranks though a rank takes several",
    HEADLESS: "vLLM 0.32.0 ends a rank above 0 that is not headless",
    CONTEXT: "vLLM needs tensor size % decode context size == 0",
    TOO_SMALL: "vLLM deals the ranks to the nodes in equal blocks, and has no GPU to spare",
}
EXPECTED = {
    ("multi_node_dep", START_RANK): 1115,
    ("multi_node_dep", TOO_MANY): 190,
    ("multi_node_tep", TOO_SMALL): 5,
    ("multi_node_tp_dp", HEADLESS): 107,
    ("multi_node_tp_dp", START_RANK): 6,
    ("multi_node_tp_pp", CONTEXT): 2,
    ("pd_cluster", ONE_NODE): 273,
    ("pd_cluster", TENSOR_ONE): 42,
    ("pd_cluster", f"{ONE_NODE}; {TENSOR_ONE}"): 25,
    ("single_node_dep", TENSOR_ONE): 14,
    ("single_node_dep", TOO_MANY): 6,
    ("single_node_dep", TOO_SMALL): 8,
}


@pytest.fixture(scope="module")
def differences(shared: Path) -> dict[str, list[oracle.Difference]]:
    """All differences: plain (must be none), fixed (must be none), layout (must have a reason)."""
    began = time.monotonic()
    catalog = Catalog.load(shared / "catalog")
    found: dict[str, list[oracle.Difference]] = {"plain": [], "fixed": [], "layout": []}
    rendered = oracle.renderings(shared)
    for rendering in rendered:
        recipe = oracle.resolve(catalog, rendering)
        found["plain"] += oracle.plain_differences(recipe, rendering)
        found["fixed"] += oracle.fixed_differences(recipe, rendering)
        found["layout"] += oracle.layout_differences(recipe, rendering)
    seconds = time.monotonic() - began
    print(f"\n{len(rendered)} renderings compared in {seconds:.1f} s")
    for (strategy, kind), count in sorted(counted(found["layout"]).items()):
        print(f"{count:6} {strategy:17} {kind}")
    for kind, reason in REASONS.items():
        print(f"       {kind}: {reason}")
    assert len(rendered) == 9913
    return found


def test_model_image_environment_and_arguments_agree_with_the_site_in_every_rendering(
    differences: dict[str, list[oracle.Difference]],
) -> None:
    assert differences["plain"][:3] == []


def test_what_a_recipe_fixes_of_the_layout_stands_in_the_sites_command_too(
    differences: dict[str, list[oracle.Difference]],
) -> None:
    assert differences["fixed"][:3] == []


def test_every_difference_in_parallel_flags_is_known_by_kind_reason_and_number(
    differences: dict[str, list[oracle.Difference]],
) -> None:
    unknown = [item for item in differences["layout"] if item.kind.startswith("unknown")]
    assert unknown[:3] == []
    assert counted(differences["layout"]) == EXPECTED
    assert {kind for _, kinds in EXPECTED for kind in kinds.split("; ")} == set(REASONS)


def counted(differences: list[oracle.Difference]) -> Counter[tuple[str, str]]:
    return Counter((item.selection.split()[3], item.kind) for item in differences)
