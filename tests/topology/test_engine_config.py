"""What vLLM's configuration refuses is refused in the plan, and what the hint says is planned.

`tests/golden/test_vllm_engine.py` holds the same rules against vLLM itself.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from orchestrator.errors import PlanError
from orchestrator.recipes.resolved import Argument, ModelShape
from orchestrator.topology.layout import Layout
from tests.topology.builders import H200, layout, slots

MIXTURE = {"mixture_of_experts": True}
LATENT = ModelShape(
    layers=61, attention_heads=128, kv_heads=1, kv_latent=576, experts=256, sparse_attention=False
)
SPARSE = replace(LATENT, sparse_attention=True)
GROUPED = ModelShape(layers=36, attention_heads=64, kv_heads=8, head_dim=128)
CONTEXT = {"parallel": {"prefill_context": 2}}
BOTH = {"parallel": {"tensor": 1, "prefill_context": 8, "decode_context": 8}}

Case = dict[str, Any]


def mtp(method: str) -> dict[str, Any]:
    return {"speculative-config": {"method": method, "num_speculative_tokens": 1}}


def planned(case: Case) -> Layout:
    """The layout of a case: a strategy on `hosts` with `args` (true: the flag alone)."""
    args = case.get("args", {})
    arguments = [
        Argument(
            f"--{name}",
            (f"--{name}",)
            if value is True
            else (f"--{name}", json.dumps(value) if isinstance(value, dict) else str(value)),
            "user",
        )
        for name, value in args.items()
    ]
    return layout(
        case.get("strategy", "single_node_dep"),
        slots(*case.get("hosts", (8,))),
        shape=case.get("shape", LATENT),
        arguments=arguments,
        recipe=MIXTURE | case.get("recipe", {}),
        hardware_profile=replace(H200, **case.get("hardware", {})),
        **case.get("selection", {}),
    )


# What is refused, the words of the refusal, and what of the case its hint mends.
REFUSED: dict[str, tuple[Case, str, Case]] = {
    "balanced experts that are cut": (
        {"strategy": "single_node_tp", "args": {"enable-eplb": True}},
        "--enable-eplb needs --enable-expert-parallel",
        {"strategy": "single_node_tep"},
    ),
    "balanced experts on one rank": (
        {"hosts": (1,), "args": {"enable-eplb": True}},
        "balancing over 1 rank",
        {"hosts": (2,)},
    ),
    "balanced experts on a CPU": (
        {"hardware": {"generation": "cpu"}, "args": {"enable-eplb": True}},
        "--enable-eplb on a CPU",
        {"args": {}},
    ),
    "redundant experts without balancing": (
        {"args": {"eplb-config": {"num_redundant_experts": 8}}},
        "num_redundant_experts = 8, without",
        {"args": {"eplb-config": {"num_redundant_experts": 8}, "enable-eplb": True}},
    ),
    "redundant experts by a dotted key": (
        {"args": {"eplb-config.num_redundant_experts": 3, "enable-eplb": True}},
        r"259 % 8 = 3",
        {"args": {"eplb-config.num_redundant_experts": 8, "enable-eplb": True}},
    ),
    "experts that are dealt unevenly by a configuration that is no mapping": (
        {"hosts": (3,), "args": {"enable-eplb": True, "eplb-config": "[]"}},
        r"256 % 3 = 1",
        {"hosts": (4,)},
    ),
    "asynchronous balancing over NCCL": (
        {"args": {"enable-eplb": True, "eplb-config": {"communicator": "pynccl"}}},
        "communicator = pynccl, with use_async",
        {
            "args": {
                "enable-eplb": True,
                "eplb-config": {"communicator": "pynccl", "use_async": False},
            }
        },
    ),
    "elastic without balancing": (
        {"args": {"enable-elastic-ep": True}},
        "--enable-elastic-ep needs --enable-eplb",
        {"args": {"enable-elastic-ep": True, "enable-eplb": True}},
    ),
    "elastic stages": (
        {
            "args": {"enable-elastic-ep": True, "enable-eplb": True},
            "selection": {"parallel": {"pipeline": 2}},
        },
        "--enable-elastic-ep does not go with pipeline 2",
        {"selection": {}},
    ),
    "elastic hybrid": (
        {
            "strategy": "multi_node_dep",
            "hosts": (8, 8),
            "args": {"enable-elastic-ep": True, "enable-eplb": True},
        },
        "hybrid or external load balancing",
        {"selection": {"load_balancing": "internal"}},
    ),
    "elastic external": (
        {
            "args": {"enable-elastic-ep": True, "enable-eplb": True},
            "selection": {"load_balancing": "external"},
        },
        "hybrid or external load balancing",
        {"selection": {"load_balancing": "internal"}},
    ),
    "less than the ranks at most": (
        {"args": {"enable-elastic-ep": True, "enable-eplb": True, "elastic-ep-max-dp-size": 4}},
        "less than the 8 data-parallel ranks",
        {"args": {"enable-elastic-ep": True, "enable-eplb": True, "elastic-ep-max-dp-size": 8}},
    ),
    "NUMA nodes without binding": (
        {"args": {"numa-bind-nodes": 0}},
        "--numa-bind-nodes needs --numa-bind",
        {"args": {"numa-bind-nodes": 0, "numa-bind": True}},
    ),
    "faults tolerated behind one endpoint": (
        {"args": {"enable-fault-tolerance": True}},
        "needs external load balancing",
        {"selection": {"load_balancing": "external"}},
    ),
    "overlap by all-gather": (
        {"args": {"enable-dbo": True}},
        "all-to-all backend allgather_reducescatter",
        {"args": {"enable-dbo": True, "all2all-backend": "deepep_low_latency"}},
    ),
    "microbatches by all-gather": (
        {"args": {"ubatch-size": 3}},
        "--ubatch-size 3 does not go with",
        {"args": {"ubatch-size": 3, "all2all-backend": "nixl_ep"}},
    ),
    "microbatches of less than their number": (
        {"args": {"ubatch-size": 64, "all2all-backend": "nixl_ep"}},
        "--dbo-decode-token-threshold 32 is less than the 64 microbatches",
        {
            "args": {
                "ubatch-size": 64,
                "all2all-backend": "nixl_ep",
                "dbo-decode-token-threshold": 64,
            }
        },
    ),
    "overlap of prefill context": (
        {
            "args": {"enable-dbo": True, "all2all-backend": "deepep_low_latency"},
            "selection": CONTEXT,
        },
        "--enable-dbo does not go with prefill context 2",
        {"selection": {}},
    ),
    "microbatches of prefill context": (
        {"args": {"ubatch-size": 2, "all2all-backend": "nixl_ep"}, "selection": CONTEXT},
        "--ubatch-size 2 does not go with prefill context 2",
        {"selection": {}},
    ),
    "moonep with balancing": (
        {"args": {"all2all-backend": "moonep", "enable-eplb": True}},
        "moonep does not go with --enable-eplb",
        {"args": {"all2all-backend": "moonep"}},
    ),
    "moonep in turns": (
        {"args": {"all2all-backend": "moonep", "expert-placement-strategy": "round_robin"}},
        "moonep does not go with --expert-placement-strategy round_robin",
        {"args": {"all2all-backend": "moonep"}},
    ),
    "moonep of FP8": (
        {"args": {"all2all-backend": "moonep"}, "recipe": {"precision": "fp8"}},
        "moonep does not go with fp8 weights",
        {"recipe": {"precision": "bf16"}},
    ),
    "routed experts of stages": (
        {
            "args": {"enable-return-routed-experts": True},
            "selection": {"parallel": {"pipeline": 2}},
        },
        "--enable-return-routed-experts does not go with pipeline 2",
        {"selection": {}},
    ),
    "an offloaded index over stages": (
        {
            "args": {"attention-config": {"hisparse_config": {"top_k": 1}}},
            "selection": {"parallel": {"pipeline": 2}},
        },
        "hisparse_config does not go with pipeline 2",
        {"selection": {}},
    ),
    "prefill context of grouped heads": (
        {"strategy": "single_node_tp", "shape": GROUPED, "selection": CONTEXT},
        "prefill context 2 of org/model, which has no multi-head latent attention",
        {"selection": {}},
    ),
    "prefill context without latent attention": (
        {"selection": CONTEXT, "recipe": {"env": {"VLLM_MLA_DISABLE": "1"}}},
        "no multi-head latent attention",
        {"recipe": {}},
    ),
    "prefill context of images": (
        {"selection": CONTEXT, "shape": replace(LATENT, multimodal=True)},
        "takes images or other media",
        {"args": {"language-model-only": True}},
    ),
    "prefill context of images and audio": (
        {
            "selection": CONTEXT,
            "shape": replace(LATENT, multimodal=True),
            "args": {"limit-mm-per-prompt": {"image": 0, "audio": 1}},
        },
        "takes images or other media",
        {"args": {"limit-mm-per-prompt": {"image": 0, "audio": 0}}},
    ),
    "prefill context of images, in dotted keys": (
        {
            "selection": CONTEXT,
            "shape": replace(LATENT, multimodal=True),
            "args": {"limit-mm-per-prompt.image": 1},
        },
        "takes images or other media",
        {"args": {"limit-mm-per-prompt.image": 0}},
    ),
    "prefill context by the old runner": (
        {"selection": CONTEXT, "recipe": {"env": {"VLLM_USE_V2_MODEL_RUNNER": "0"}}},
        "VLLM_USE_V2_MODEL_RUNNER=0",
        {"recipe": {}},
    ),
    "prefill context with adapters": (
        {"selection": CONTEXT, "args": {"enable-lora": True}},
        "does not go with --enable-lora",
        {"args": {}},
    ),
    "prefill context with a drafter": (
        {"selection": CONTEXT, "args": mtp("eagle3")},
        "speculative decoding by eagle3",
        {"args": mtp("deepseek_mtp")},
    ),
    "prefill context with a draft model": (
        {"selection": CONTEXT, "args": {"speculative-config": {"model": "org/draft"}}},
        "speculative decoding by a draft model",
        {"args": mtp("mtp")},
    ),
    "both contexts of attention to all": (
        {"strategy": "single_node_tp", "selection": BOTH},
        "prefill context 8 with decode context 8 of org/model, whose attention is not sparse",
        {"selection": {"parallel": {"prefill_context": 8}}},
    ),
    "both contexts by all-to-all": (
        {
            "strategy": "single_node_tp",
            "shape": SPARSE,
            "selection": BOTH,
            "args": {"dcp-comm-backend": "a2a"},
        },
        "--dcp-comm-backend a2a",
        {"args": {"dcp-comm-backend": "ag_rs"}},
    ),
    "prefill context of sparse attention with graphs": (
        {"shape": SPARSE, "selection": CONTEXT},
        r"whose attention is sparse, with CUDA graphs \(FULL_AND_PIECEWISE\)",
        {"args": {"enforce-eager": True}},
    ),
    "the same by a dotted key": (
        {
            "shape": SPARSE,
            "selection": CONTEXT,
            "args": {"compilation-config.cudagraph_mode": "PIECEWISE"},
        },
        r"CUDA graphs \(PIECEWISE\)",
        {"args": {"compilation-config": {"cudagraph_mode": "NONE"}}},
    ),
    "prefill context in full graphs": (
        {"selection": CONTEXT, "args": {"compilation-config": {"cudagraph_mode": "FULL"}}},
        "with cudagraph_mode FULL",
        {"args": {"compilation-config": {"cudagraph_mode": "FULL_DECODE_ONLY"}}},
    ),
    "prefill context that receives KV cache": (
        {
            "selection": CONTEXT,
            "args": {
                "kv-transfer-config": {"kv_connector": "NixlConnector", "kv_role": "kv_consumer"}
            },
        },
        r"receives KV cache \(kv_consumer\)",
        {"selection": {}},
    ),
    "prefill context that receives KV cache, in dotted keys": (
        {
            "selection": CONTEXT,
            "args": {
                "kv-transfer-config.kv_connector": "NixlConnector",
                "kv-transfer-config.kv_role": "kv_consumer",
            },
        },
        r"receives KV cache \(kv_consumer\)",
        {"selection": {}},
    ),
    "decode context of grouped heads that are moved": (
        {
            "strategy": "single_node_tp",
            "shape": replace(GROUPED, kv_heads=2),
            "selection": {"parallel": {"decode_context": 4}},
            "args": {
                "kv-transfer-config": {"kv_connector": "NixlConnector", "kv_role": "kv_producer"}
            },
        },
        "decode context parallel 4 of org/model under prefill/decode",
        {"selection": {}},
    ),
    "both contexts of a sender of several tensor ranks": (
        {
            "strategy": "single_node_tp",
            "shape": SPARSE,
            "selection": {"parallel": {"tensor": 2, "prefill_context": 4, "decode_context": 4}},
            "args": {
                "kv-transfer-config": {"kv_connector": "NixlConnector", "kv_role": "kv_producer"}
            },
        },
        "decode context 4 and tensor 2 under prefill/decode",
        {"selection": BOTH},
    ),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_what_vllm_refuses_is_refused_and_its_hint_is_planned(name: str) -> None:
    case, words, mend = REFUSED[name]
    with pytest.raises(PlanError, match=words) as refusal:
        planned(case)
    assert refusal.value.hint
    planned(case | mend)


ALLOWED: dict[str, Case] = {
    "prefill context of what is not known": {"shape": ModelShape(), "selection": CONTEXT},
    "full graphs on AMD, where vLLM makes them piecewise": {
        "selection": CONTEXT,
        "args": {"compilation-config": {"cudagraph_mode": 2}},
        "hardware": {"brand": "AMD"},
    },
    "both contexts of sparse attention, with graphs": {
        "strategy": "single_node_tp",
        "shape": SPARSE,
        "selection": BOTH,
    },
    "a sender of prefill context": {
        "selection": CONTEXT,
        "args": {"kv-transfer-config": {"kv_connector": "NixlConnector", "kv_role": "kv_producer"}},
    },
}


@pytest.mark.parametrize("name", list(ALLOWED))
def test_what_vllm_takes_is_planned(name: str) -> None:
    assert planned(ALLOWED[name]).nodes
