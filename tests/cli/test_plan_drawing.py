"""The drawing of a plan in the terminal: what it says, at every width, and what it leaves out."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator import Plan
from orchestrator.cli.plan_drawing import plan_drawing
from tests.cli.plans import CASES, case, rack
from tests.planning.builders import make_plan


@pytest.fixture(params=CASES)
def plan(request: pytest.FixtureRequest, tmp_path: Path) -> Plan:
    return case(tmp_path, request.param)


def test_two_hosts_stand_side_by_side_in_80_columns(tmp_path: Path) -> None:
    plan = case(tmp_path, "pipeline over two hosts")
    assert plan_drawing(plan, 80) == (
        """\
kimi-k2-6: moonshotai/Kimi-K2.6 on h200, multi_node_tp_pp
1 replica x 2 nodes, tensor 8, pipeline 2
16 of 16 GPUs on 2 of 2 hosts
layers: PP 0: 0-30, PP 1: 31-60

clients
  └─▶ http://10.1.0.1:8000

replica 0
┌─ node01 10.1.0.1 ─────────────────┐ ┌─ node02 10.1.0.2 ─────────────────┐
│ rank 0 head, PP 0, L 0-30, ▶:8000 │ │ rank 1 worker, PP 1, L 31-60      │
│ GPU    0  1  2  3  4  5  6  7     │ │ GPU    0  1  2  3  4  5  6  7     │
│ rank   0  1  2  3  4  5  6  7     │ │ rank   8  9 10 11 12 13 14 15     │
│ TP     0  1  2  3  4  5  6  7     │ │ TP     0  1  2  3  4  5  6  7     │
└───────────────────────────────────┘ └───────────────────────────────────┘"""
    )


def test_replicas_that_share_a_host_are_told_apart_by_a_row(tmp_path: Path) -> None:
    text = plan_drawing(case(tmp_path, "seven replicas on two hosts"), 40)
    assert "repl  4 4 5 5 6 6 · ·" in text
    assert "TP    0 1 0 1 0 1 · ·" in text
    assert "http://10.1.0.2:8001 (replica 5)" in text


def test_pools_that_share_a_host_are_told_apart_by_a_row(tmp_path: Path) -> None:
    text = plan_drawing(case(tmp_path, "prefill and decode on one host"), 80)
    assert "pool  P P P P D D D D" in text
    assert "http://10.1.0.1:8002 (decode)" in text


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal_and_every_box_is_closed(plan: Plan, width: int) -> None:
    for line in plan_drawing(plan, width).splitlines():
        assert len(line) <= width, line
        assert line.count("┌") == line.count("┐") and line.count("│") % 2 == 0, line


@pytest.mark.parametrize("width", [1, 9, 20, 30])
def test_a_terminal_too_narrow_for_words_still_gets_a_drawing(plan: Plan, width: int) -> None:
    assert "node01" in plan_drawing(plan, width) or width < 20


def test_a_wide_terminal_takes_more_hosts_into_a_row(tmp_path: Path) -> None:
    plan = case(tmp_path, "nested data parallel")
    assert plan_drawing(plan, 200).count("┌─ node") == 4
    assert max(line.count("┌") for line in plan_drawing(plan, 200).splitlines()) == 4
    assert max(line.count("┌") for line in plan_drawing(plan, 80).splitlines()) == 2


def test_a_few_hosts_are_all_drawn(tmp_path: Path) -> None:
    few = make_plan(
        tmp_path, rack(8), recipe="moonshotai/Kimi-K2.6", strategy="single_node_tp", replicas=8
    )
    text = plan_drawing(few, 80)
    assert text.count("┌─ node") == 8
    assert "the same" not in text


def test_many_hosts_of_one_replica_are_drawn_by_their_kinds(tmp_path: Path) -> None:
    text = plan_drawing(case(tmp_path, "256 ranks over 32 hosts"), 80)
    assert text.count("┌─ node") == 2  # the head, and one of the others
    expected = "node03 … node32 (30 hosts): the same, ranks 2-31, DP 16-255, EP 16-255"
    assert expected in text.splitlines()
    assert "25 more, to http://10.1.0.32:8000" in text
    assert len(text.splitlines()) < 40


def test_many_replicas_are_drawn_once(tmp_path: Path) -> None:
    text = plan_drawing(case(tmp_path, "8 replicas over 33 hosts"), 80)
    assert "node05 … node32 (28 hosts): the same, replicas 1-7" in text
    assert "GPUs not used\n  node33, 8 GPUs" in text
    single = plan_drawing(case(tmp_path, "16 replicas"), 80)
    assert "node02 … node16 (15 hosts): the same, replicas 1-15" in single


def test_prefill_and_decode_of_many_replicas_are_drawn_once(tmp_path: Path) -> None:
    plan = make_plan(
        tmp_path,
        rack(12),
        recipe="deepseek-ai/DeepSeek-V3.2",
        strategy="pd_cluster",
        pools={"prefill": 1, "decode": 2},
        replicas=4,
    )
    text = plan_drawing(plan, 80)
    assert text.count("┌─ node") == 3
    assert "node04 … node12 (9 hosts): the same, replicas 1-3" in text


def test_a_host_that_differs_is_drawn_among_many_that_do_not(tmp_path: Path) -> None:
    plan = case(tmp_path, "16 replicas")
    moved = replace(plan.nodes[7], port=8123)
    plan = replace(plan, nodes=(*plan.nodes[:7], moved, *plan.nodes[8:]))
    text = plan_drawing(plan, 80)
    assert "┌─ node08" in text and "▶:8123" in text
    assert "node02 … node07 (6 hosts): the same, replicas 1-6" in text
    assert "node10 … node16 (7 hosts): the same, replicas 9-15" in text


def test_colour_adds_nothing_but_colour(plan: Plan) -> None:
    coloured = plan_drawing(plan, 80, colour=True)
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[\d+m", "", coloured) == plan_drawing(plan, 80)


def test_a_stream_without_box_characters_gets_ascii(plan: Plan) -> None:
    text = plan_drawing(plan, 80, ascii_only=True)
    assert text.isascii()
    assert "+- node01 10.1.0.1 -" in text
    assert [len(line) for line in text.splitlines()] == [
        len(line) for line in plan_drawing(plan, 80).splitlines()
    ]


def test_router_and_kv_store_are_named(tmp_path: Path) -> None:
    text = plan_drawing(case(tmp_path, "router and KV store"), 80)
    router = "router on node18, http://10.1.0.18:30080, round_robin"
    assert f"{router}\n  ├─▶ http://10.1.0.1:8000 (replica 0)" in text
    assert "KV store master on node01, port 50051 ─▶ every endpoint" in text
    assert "KV store on node01 … node16 (16 hosts), port 8080 ─▶ every endpoint" in text
    assert "node18, 8 GPUs, runs the router" in text


def test_names_cannot_command_the_terminal_and_secrets_are_absent(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, rack(2), env={"HF_TOKEN": "hf_verysecret"})
    text = plan_drawing(replace(plan, recipe="a\x1b[2Jb\x07"), 80)
    assert "a?[2Jb?" in text
    assert "verysecret" not in text
