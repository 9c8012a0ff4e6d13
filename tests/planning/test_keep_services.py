"""What stands beside the engines keeps its image when only the engines get another one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator import Plan
from orchestrator.planning.decision import decide
from orchestrator.planning.keep_services import keep_services
from tests.planning.builders import make_plan
from tests.planning.test_decision import FOUR, running


def planned(directory: Path, image: str, **selection: Any) -> Plan:
    router = selection.pop("router", {})
    return make_plan(
        directory, FOUR, nodes=2, replicas=2, name="kimi", image=image, router=router, **selection
    )


def actions(plan: Plan, before: Plan) -> dict[int, str]:
    states = [running(spec) for spec in before.everything]
    kept = keep_services(plan, states)
    return {one.replica: one.action for one in decide(kept, states, replace=True).replicas}


def test_a_new_image_for_the_engines_leaves_the_router_alone(tmp_path: Path) -> None:
    before, after = planned(tmp_path, "vllm:1"), planned(tmp_path, "vllm:2")
    assert actions(after, before) == {0: "restart", 1: "restart", -2: "keep"}
    kept = keep_services(after, [running(spec) for spec in before.everything])
    assert kept.router and kept.router.image == "vllm:1"
    assert kept.router.command == before.router.command if before.router else False
    assert "the router keeps running from vllm:1, not vllm:2" in kept.notes
    assert not [note for note in kept.notes if "the router runs from" in note]


@pytest.mark.parametrize(
    "router", [{"image": "vllm:2"}, {"policy": "cache_aware"}, {"port": 31000}]
)
def test_what_was_asked_for_by_name_is_done(tmp_path: Path, router: dict[str, Any]) -> None:
    before, after = planned(tmp_path, "vllm:1"), planned(tmp_path, "vllm:2", router=router)
    assert actions(after, before)[-2] == "restart"


def test_a_router_that_does_not_run_starts_as_planned(tmp_path: Path) -> None:
    before, after = planned(tmp_path, "vllm:1"), planned(tmp_path, "vllm:2")
    states = [running(spec) for spec in before.everything if spec.role != "router"]
    assert keep_services(after, states) == after


def test_a_kv_store_is_kept_whole_or_not_at_all(tmp_path: Path) -> None:
    def stored(image: str) -> Plan:
        return make_plan(
            tmp_path,
            recipe="Qwen/Qwen3-8B",
            strategy="kv_store_centralized_mooncake",
            image=image,
            name="stored",
        )

    before, after = stored("vllm:1"), stored("vllm:2")
    assert len(before.services) > 1
    assert actions(after, before)[-1] == "keep"
    _, *others = before.services
    states = [running(spec) for spec in (*before.nodes, *others)]
    assert keep_services(after, states).services == after.services
