"""Slots, recipes and layouts for the tests of this room."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from orchestrator.deployment import Deployment
from orchestrator.recipes.resolved import (
    Argument,
    CommandParts,
    HardwareProfile,
    ModelShape,
    ResolvedPool,
    ResolvedRecipe,
    Strategy,
)
from orchestrator.topology.build import build_layout
from orchestrator.topology.layout import Layout, Slot
from orchestrator.topology.ports import PortAllotment, PortUse

H200 = HardwareProfile("h200", "NVIDIA", "hopper", 8, 1128)
KIMI = ModelShape(layers=61, attention_heads=64, kv_heads=64, experts=384)


def slots(*gpus: int) -> list[Slot]:
    return [
        Slot(f"node{n:02}", tuple(range(count)), f"10.1.0.{10 + n}", "bond0")
        for n, count in enumerate(gpus, start=1)
    ]


def recipe(strategy: str, shape: ModelShape = KIMI, **more: Any) -> ResolvedRecipe:
    experts = (Argument("--enable-expert-parallel", ("--enable-expert-parallel",), "strategy"),)
    deploy_type = "single_node" if strategy.startswith("single") else "multi_node"
    return ResolvedRecipe(
        recipe="org/model",
        model="org/model",
        variant="default",
        hardware=H200,
        strategy=Strategy(strategy, deploy_type),
        features=(),
        image="image:1",
        arguments=experts if strategy.endswith("ep") else (),
        parallel_position=0,
        shape=shape,
        **more,
    )


def prefill_decode(prefill: tuple[int, str], decode: tuple[int, str]) -> ResolvedRecipe:
    """A prefill/decode recipe with pools of (nodes, parallelism)."""

    def pool(role: str, port: str, nodes: int, parallelism: str) -> ResolvedPool:
        side_channel = {"VLLM_NIXL_SIDE_CHANNEL_PORT": "5557" if role == "prefill" else "5558"}
        arguments = [Argument("--port", ("--port", port), "strategy")]
        if parallelism.endswith("ep"):
            flag = "--enable-expert-parallel"
            arguments.append(Argument(flag, (flag,), "pool"))
        parts = CommandParts(arguments=tuple(arguments), parallel_position=1, env=side_channel)
        return ResolvedPool(role, nodes, parallelism, None, parts)

    base = recipe("pd_cluster", mixture_of_experts=True)
    pools = {
        "prefill": pool("prefill", "8001", *prefill),
        "decode": pool("decode", "8002", *decode),
    }
    return replace(base, pools=pools)


def layout(strategy: str, hosts: list[Slot], **selection: Any) -> Layout:
    shape = selection.pop("shape", KIMI)
    more = selection.pop("recipe", {})
    use = selection.pop("use", PortUse())
    resolved = recipe(strategy, shape, **more)
    hardware = selection.pop("hardware_profile", resolved.hardware)
    arguments = (*resolved.arguments, *selection.pop("arguments", ()))
    resolved = replace(resolved, hardware=hardware, arguments=arguments)
    deployment = Deployment.model_validate({"recipe": "org/model", **selection})
    return build_layout(resolved, hosts, deployment, PortAllotment(use))
