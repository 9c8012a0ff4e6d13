"""Slots, recipes and layouts for the tests of this room."""

from __future__ import annotations

from typing import Any

from orchestrator.deployment import Deployment
from orchestrator.recipes.resolved import (
    Argument,
    HardwareProfile,
    ModelShape,
    ResolvedRecipe,
    Strategy,
)
from orchestrator.topology.build import build_layout
from orchestrator.topology.layout import Layout, Slot

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


def layout(strategy: str, hosts: list[Slot], **selection: Any) -> Layout:
    shape = selection.pop("shape", KIMI)
    more = selection.pop("recipe", {})
    deployment = Deployment.model_validate({"recipe": "org/model", **selection})
    return build_layout(recipe(strategy, shape, **more), hosts, deployment, 8000)
