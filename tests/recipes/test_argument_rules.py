"""Arguments that no plan can keep: honoured, or refused with what to use instead."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.deployment import Deployment
from orchestrator.errors import InputError
from orchestrator.recipes.catalog import Catalog
from orchestrator.recipes.resolved import ResolvedRecipe

ONE_NODE = {"strategy": "single_node_tp"}
WIDE = {"strategy": "multi_node_dep"}
POOLS = {"strategy": "pd_cluster"}
NIXL = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}


def resolved(catalog: Catalog, args: dict[str, Any], **selection: Any) -> ResolvedRecipe:
    whole = {"recipe": "moonshotai/Kimi-K2.6", "strategy": "multi_node_tp_pp", **selection}
    return catalog.resolve(Deployment.model_validate({**whole, "args": args}), "h200")


NODE = "is worked out for every node"
SHARE = "is above 0 and at most 1, not"
WHOLE = "is a whole number from 1 up, not"


@pytest.mark.parametrize(
    ("args", "selection", "said"),
    [
        # A layout in every spelling that vLLM takes.
        ({"node-ran": 3}, {}, f"--node-rank {NODE}"),
        ({"data-parallel-size-loc": 2}, {}, f"--data-parallel-size-local {NODE}"),
        ({"data_parallel_start_rank": 2}, {}, f"--data-parallel-start-rank {NODE}"),
        ({"-r": 3}, {}, f"--node-rank {NODE}"),
        ({"-n2": True}, {}, f"--nnodes {NODE}"),
        ({"-dpa": "10.0.0.1"}, {}, f"--data-parallel-address {NODE}"),
        ({"headl": False}, {}, f"--headless {NODE}"),
        ({"no-headless": True}, {}, f"--headless {NODE}"),
        ({"master-addr.x": 1}, {}, "--master-addr has no keys, such as --master-addr.x"),
        ({"tensor-parallel": 0}, {}, f"--tensor-parallel-size {WHOLE} '0'"),
        ({"-tp.x": 8}, ONE_NODE, "--tensor-parallel-size has no keys"),
        # A layout that a field of the deployment decides.
        (
            {"tensor-par": 8},
            {"parallel": {"tensor": 16}},
            "parallel.tensor = 16, but your args say",
        ),
        ({"-dcp": 2}, {"parallel": {"decode_context": 4}}, "parallel.decode_context = 4, but"),
        ({"data-parallel-hybrid-lb": True}, WIDE, "load_balancing: hybrid, or internal"),
        ({"no-data-parallel-h": True}, WIDE, "load_balancing: hybrid, or internal"),
        ({"data-parallel-external-lb": True}, WIDE, "say load_balancing: external"),
        ({"-dpm": True}, ONE_NODE, "say load_balancing: external"),
        ({"data-parallel-backend": "ray"}, WIDE, "--data-parallel-backend ray cannot be given"),
        ({"-dpb": "ray"}, ONE_NODE, "the ranks are joined by mp"),
        ({"distributed-executor-backend": "ray"}, {}, "--distributed-executor-backend ray cannot"),
        ({"distributed-exec": "uni"}, POOLS, "the ranks are joined by mp"),
        # What no plan can show or start.
        ({"config": "/etc/vllm.yaml"}, {}, "write what is in it into args"),
        ({"model": "org/other"}, {}, "recipe or variant chooses it"),
        ({"help": True}, {}, "vLLM shows its help and ends"),
        ({"api-k": "sk-1"}, {}, "--api-key would put a secret on a command line"),
        # What no look at the endpoint could find healthy.
        ({"uds": "/tmp/x"}, {}, "--uds cannot be given (from your args)"),
        ({"grpc": True}, ONE_NODE, "nothing serves HTTP"),
        ({"ssl-keyf": "/k.pem"}, {}, "health and the router ask by plain HTTP"),
        ({"ssl-certfile": "/c.pem"}, {}, "health and the router ask by plain HTTP"),
        ({"root-path": "/v1"}, {}, "--root-path /v1 hides paths that health asks"),
        ({"root-path": "/health/"}, {}, "--root-path /health/ hides paths"),
        ({"-asc": 0}, {}, f"--api-server-count {WHOLE} '0'"),
        ({"api-server-count": -1}, {}, f"--api-server-count {WHOLE} '-1'"),
        ({"gpu-memory": "abc"}, {}, f"--gpu-memory-utilization {SHARE} 'abc'"),
        ({"device-memory-utilization": 92}, {}, f"--gpu-memory-utilization {SHARE} '92'"),
        ({"skip-tokenizer-init": True}, {}, "health.completion=false"),
        ({"tokens-only": True}, {}, "no completion of a text is ever answered"),
        ({"runner": "pooling"}, {}, "with --runner pooling no completion"),
        ({"conv": "embed"}, {}, "with --convert embed no completion"),
        # Prefill/decode without a connector that moves the cache.
        ({"kv-transfer-config": {}}, POOLS, "the prefill pool has no KV connector"),
        ({"kv-transfer-config": None}, POOLS, "the prefill pool has no KV connector"),
        ({"kv-transfer-config": "none"}, POOLS, "the prefill pool has no KV connector"),
        ({"kv-transf": {"kv_connector": None}}, POOLS, "the prefill pool has no KV connector"),
        ({"kv-transfer-config.kv_connector": ""}, POOLS, "the prefill pool has no KV connector"),
        (
            {"kv-transfer-config.kv_connector": "OffloadingConnector"},
            POOLS,
            "OffloadingConnector of the prefill pool moves no KV cache",
        ),
        (
            {
                "kv-transfer-config": {
                    "kv_connector": "MultiConnector",
                    "kv_role": "kv_both",
                    "kv_connector_extra_config": {
                        "connectors": [{"kv_connector": "SimpleCPUOffloadConnector"}]
                    },
                }
            },
            POOLS,
            "SimpleCPUOffloadConnector of the prefill pool moves no KV cache",
        ),
        ({"kv-transfer-config": {"kv_connector": "NixlConnector"}}, POOLS, "not None"),
        (
            {"kv-transfer-config": {**NIXL, "kv_role": "kv_producer"}},
            POOLS,
            "kv_role of the decode pool is kv_consumer or kv_both, not 'kv_producer'",
        ),
        (
            {"kv-transfer-config": {}},
            {"strategy": "single_node_tp", "kv_offload": "kv_store_distributed_mooncake"},
            "kv_offload = kv_store_distributed_mooncake brings MooncakeStoreConnector, which",
        ),
        (
            {"kv-transf.kv_connector": "NixlConnector"},
            {"strategy": "single_node_tp", "kv_offload": "simple"},
            "kv_offload = simple brings SimpleCPUOffloadConnector, which --kv-transfer-config of",
        ),
        (
            {"kv-transfer-config": NIXL},
            {"strategy": "pd_cluster", "kv_offload": "kv_store_distributed_mooncake"},
            "brings MooncakeStoreConnector, which --kv-transfer-config of your args leaves out",
        ),
    ],
)
def test_what_no_plan_can_keep_is_refused(
    own: Catalog, args: dict[str, Any], selection: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError) as refused:
        resolved(own, args, **selection)
    assert said in str(refused.value)
    assert refused.value.hint or any(one in said for one in (WHOLE, SHARE, "has no keys"))


@pytest.mark.parametrize(
    ("args", "selection", "flag", "value"),
    [
        (
            {"distributed-executor-backend": "ray"},
            ONE_NODE,
            "--distributed-executor-backend",
            "ray",
        ),
        ({"root-path": "/models/kimi"}, {}, "--root-path", "/models/kimi"),
        ({"root-path": "/v"}, {}, "--root-path", "/v"),
        ({"api-server-count": 2}, {}, "--api-server-count", "2"),
        ({"runner": "pooling"}, {"health": {"completion": False}}, "--runner", "pooling"),
        ({"no-enable-expert": True}, {}, "--enable-expert-parallel", ""),
    ],
)
def test_what_can_be_kept_is_kept(
    own: Catalog, args: dict[str, Any], selection: dict[str, Any], flag: str, value: str
) -> None:
    assert resolved(own, args, **selection).value(flag) == value


@pytest.mark.parametrize(
    ("args", "selection", "fixed"),
    [
        ({"tensor-par": 8}, {"parallel": {"tensor": 8}}, {"--tensor-parallel-size": "8"}),
        ({"-pp": 2}, {}, {"--pipeline-parallel-size": "2"}),
        ({"-dpb": "mp"}, WIDE, {"--data-parallel-backend": "mp"}),
    ],
)
def test_a_layout_that_agrees_is_a_constraint(
    own: Catalog, args: dict[str, Any], selection: dict[str, Any], fixed: dict[str, str]
) -> None:
    found = resolved(own, args, **selection).fixed_parallel
    assert {flag: found[flag] for flag in fixed} == fixed


@pytest.mark.parametrize(
    "config", [NIXL, {**NIXL, "kv_connector": "MyConnector", "kv_connector_module_path": "my"}]
)
def test_a_connector_that_may_move_the_cache_is_taken(own: Catalog, config: dict[str, Any]) -> None:
    found = resolved(own, {"kv-transfer-config": config}, **POOLS)
    assert all(pool.parts.has("--kv-transfer-config") for pool in found.pools.values())
