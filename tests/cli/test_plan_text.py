"""The table of a plan: of every GPU its global rank and those by DP, PP, PCP, TP and EP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator import Catalog, Deployment, plan
from orchestrator.cli.plan_text import RANKS, plan_text, ranks_text
from orchestrator.planning.launch_spec import LaunchSpec
from tests.cli.plans import CASES, case, rack
from tests.planning.builders import inventory, make_plan

FIRST = ("HOST", "REPLICA", "RANK", "ROLE", "GPUS", "ADDRESS", "LAYERS")


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([3], "3"),
        ([1, 1, 1, 1], "1"),
        ([8, 9, 10, 11], "8-11"),
        ([0, 1, 2, 3, 0, 1, 2, 3], "0-3,0-3"),
        ([0, 0, 1, 1], "0x2,1x2"),
        ([0, 2, 4], "0,2,4"),
        ([0, 0, 1, 2, 2], "0x2,1-2,2"),
    ],
)
def test_the_ranks_of_a_nodes_gpus_are_one_exact_phrase(numbers: list[int], text: str) -> None:
    assert ranks_text(numbers) == text
    assert read(text, len(numbers)) == numbers


def read(text: str, gpus: int) -> list[int]:
    """The numbers that a phrase stands for."""
    found: list[int] = []
    for word in text.split(","):
        first, _, last = word.partition("-")
        value, _, times = first.partition("x")
        found += range(int(value), int(last) + 1) if last else [int(value)] * int(times or 1)
    return found * gpus if len(found) == 1 else found


@pytest.mark.parametrize("name", CASES)
def test_every_rank_of_every_gpu_can_be_read_off_the_table(tmp_path: Path, name: str) -> None:
    made = case(tmp_path, name)
    text = plan_text(made).split("\n\n")[1]
    header, *rows = [line.split("  ") for line in text.splitlines()]
    columns = [word.strip() for word in header if word]
    assert tuple(columns[: len(FIRST)]) == FIRST
    shown = [word.lower() for word in columns[len(FIRST) :]]
    assert shown == [kind for kind in RANKS if kind in shown]
    for spec, row in zip(made.everything, rows, strict=True):
        cells = [cell.strip() for cell in row if cell][len(FIRST) :]
        assert len(cells) == len(shown)
        for kind in RANKS:
            cell = dict(zip(shown, cells, strict=True)).get(kind, "-")
            assert values(spec, cell) == [getattr(rank, kind) for rank in spec.ranks], kind


def values(spec: LaunchSpec, cell: str) -> list[int]:
    """A kind that is not shown is 0 for every GPU."""
    return [0] * len(spec.ranks) if cell == "-" else read(cell, len(spec.ranks))


def test_a_table_of_many_hosts_stays_narrow(tmp_path: Path) -> None:
    table = plan_text(case(tmp_path, "256 ranks over 32 hosts")).split("\n\n")[1]
    assert max(map(len, table.splitlines())) <= 100


@pytest.mark.parametrize(
    ("selection", "line"),
    [
        ({}, "kimi-k2-6: moonshotai/Kimi-K2.6 on h200, single_node_tp"),
        ({"variant": "nvfp4", "hardware": "b200"}, "Kimi-K2.6 (nvfp4) on b200, single_node_tp"),
        ({"kv_offload": "simple"}, "on h200, single_node_tp, simple"),
        (
            {"strategy": "kv_store_distributed_mooncake"},
            "on h200, single_node_tp, kv_store_distributed_mooncake",
        ),
    ],
)
def test_the_first_line_says_what_was_chosen(
    tmp_path: Path, selection: dict[str, Any], line: str
) -> None:
    hosts = rack(2).replace("h200", selection.get("hardware", "h200"))
    made = make_plan(tmp_path, hosts, **{"strategy": "single_node_tp", **selection})
    assert plan_text(made).splitlines()[0].endswith(line)


def test_a_variant_that_the_recipe_chooses_for_the_hardware_is_said_too(tmp_path: Path) -> None:
    models = tmp_path / "models" / "own"
    models.mkdir(parents=True)
    (models / "one.yaml").write_text(
        "meta: {title: One, default_variant: {h200: fp8}}\n"
        "model: {model_id: own/one}\ncompatible_strategies: [single_node_tp]\n"
        "variants:\n  default: {precision: bf16, vram_minimum_gb: 1}\n"
        "  fp8: {precision: fp8, vram_minimum_gb: 1}\n"
    )
    made = plan(inventory(tmp_path), Catalog.load(tmp_path), Deployment(recipe="own/one"))
    assert made.to_dict()["variant"] == "fp8"
    assert plan_text(made).startswith("one: own/one (fp8) on h200, single_node_tp\n")


def test_many_endpoints_are_told_one_by_one_when_more_is_asked_for(tmp_path: Path) -> None:
    made = case(tmp_path, "256 ranks over 32 hosts")
    lines = plan_text(made).split("\n\n")[2].splitlines()
    assert lines[6:] == [
        "endpoint: http://10.1.0.7:8000 (deepseek-ai/DeepSeek-V3.2)",
        "25 endpoints more, to http://10.1.0.32:8000",
        "router: http://10.1.0.1:30000 (requests go here)",
    ]
    assert plan_text(made, verbose=1).count("endpoint: ") == 32


def test_an_endpoint_of_a_pool_says_which(tmp_path: Path) -> None:
    assert plan_text(case(tmp_path, "prefill and decode")).split("\n\n")[2].splitlines() == [
        "endpoint: http://10.1.0.1:8001 (deepseek-ai/DeepSeek-V3.2, prefill)",
        "endpoint: http://10.1.0.2:8002 (deepseek-ai/DeepSeek-V3.2, decode)",
        "endpoint: http://10.1.0.3:8002 (deepseek-ai/DeepSeek-V3.2, decode)",
        "router: http://10.1.0.1:30000 (requests go here)",
    ]


def test_a_host_whose_interface_is_not_known_is_named_once(tmp_path: Path) -> None:
    text = rack(12).replace(", orc_interface: bond0", "")
    made = make_plan(
        tmp_path, text, recipe="deepseek-ai/DeepSeek-V3.2", strategy="multi_node_dep", nodes=12
    )
    (note,) = (note for note in made.notes if "interface" in note)
    some = "node01, node02, node03, node04, node05, node06, node07, node08 and 4 more"
    assert f"interface of {some} is not known" in note


def test_of_many_hosts_left_over_some_are_named(tmp_path: Path) -> None:
    made = make_plan(tmp_path, rack(20), strategy="single_node_tp")
    some = "node02, node03, node04, node05, node06, node07, node08, node09 and 11 more"
    assert made.notes[0] == f"hosts left over: {some}"
    assert len(made.to_dict()["unused"]) == 19
