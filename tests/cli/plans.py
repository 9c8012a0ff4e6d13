"""Plans of every kind that a picture has to show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from orchestrator import Plan
from tests.planning.builders import make_plan

DEEPSEEK = {"recipe": "deepseek-ai/DeepSeek-V3.2"}
GPT_OSS = {"recipe": "openai/gpt-oss-120b", "strategy": "single_node_tp"}
KIMI = {"recipe": "moonshotai/Kimi-K2.6"}

# Name: hosts, more host variables, selection.
CASES: dict[str, tuple[int, str, dict[str, Any]]] = {
    "pipeline over two hosts": (
        2,
        "",
        {**KIMI, "strategy": "multi_node_tp_pp", "features": ["-spec_decoding"]},
    ),
    "a host left over": (3, "", {**KIMI, "strategy": "multi_node_tp_pp", "nodes": 2}),
    "four stages on two hosts": (
        2,
        "",
        {**KIMI, "strategy": "multi_node_tp_pp", "parallel": {"tensor": 4}},
    ),
    "a stage on each GPU": (
        2,
        "",
        {**KIMI, "strategy": "multi_node_tp_pp", "parallel": {"tensor": 1, "pipeline": 16}},
    ),
    "256 ranks over 32 hosts": (32, "", {**DEEPSEEK, "strategy": "multi_node_dep", "nodes": 32}),
    "8 replicas over 33 hosts": (
        33,
        "",
        {**DEEPSEEK, "strategy": "multi_node_dep", "nodes": 4, "replicas": 8},
    ),
    "nested data parallel": (
        4,
        "",
        {**DEEPSEEK, "strategy": "multi_node_dep", "parallel": {"tensor": 16}},
    ),
    "16 replicas": (18, "", {**KIMI, "strategy": "single_node_tp", "replicas": 16}),
    "router and KV store": (
        18,
        "",
        {
            **KIMI,
            "strategy": "single_node_tp",
            "replicas": 16,
            "kv_offload": "kv_store_centralized_mooncake",
            "router": {"host": "node18", "policy": "round_robin"},
        },
    ),
    "two replicas on a host": (1, "", {**GPT_OSS, "parallel": {"tensor": 4}, "replicas": 2}),
    "seven replicas on two hosts": (2, "", {**GPT_OSS, "parallel": {"tensor": 2}, "replicas": 7}),
    "half of each host": (
        2,
        ", orc_gpus: [0, 1, 2, 3]",
        {**GPT_OSS, "parallel": {"tensor": 2}, "replicas": 3},
    ),
    "prefill and decode": (
        3,
        "",
        {
            **DEEPSEEK,
            "strategy": "pd_cluster",
            "pools": {"prefill": 1, "decode": {"nodes": 2, "parallelism": "dep"}},
        },
    ),
    "prefill and decode on one host": (
        1,
        "",
        {
            "recipe": "orc/tiny-llama",
            "strategy": "pd_cluster",
            "nodes": 1,
            "pools": {"prefill": 1, "decode": 1},
        },
    ),
    "a server for each rank": (
        1,
        "",
        {
            "recipe": "orc/tiny-qwen3-moe",
            "strategy": "single_node_dep",
            "load_balancing": "external",
        },
    ),
    "16 GPUs in a host": (
        1,
        ", orc_hardware: ascend_910c",
        {"recipe": "orc/tiny-llama", "strategy": "single_node_tp", "parallel": {"tensor": 2}},
    ),
}


def rack(count: int, variables: str = "") -> str:
    """An inventory of `count` hosts: node01, node02, ..."""
    hosts = (
        f"    node{index:02d}: {{orc_address: 10.1.0.{index}{variables}}}\n"
        for index in range(1, count + 1)
    )
    common = "all:\n  vars: {orc_interface: bond0}\n  hosts:\n"
    if "orc_hardware" not in variables:
        common = common.replace("{", "{orc_hardware: h200, ")
    return common + "".join(hosts)


_MADE: dict[str, Plan] = {}


def case(directory: Path, name: str) -> Plan:
    """The plan of that name, made once: plans are immutable."""
    if name not in _MADE:
        count, variables, selection = CASES[name]
        _MADE[name] = make_plan(directory, rack(count, variables), **selection)
    return _MADE[name]
