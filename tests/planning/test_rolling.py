"""What a roll goes over, and how engines of a prefill/decode pool are taken out of use."""

from __future__ import annotations

import asyncio
import os
import time
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from orchestrator import Plan
from orchestrator.planning import draining
from orchestrator.planning.decision import Decision, ReplicaDecision, decide
from orchestrator.planning.rolling import rolled
from orchestrator.planning.running import running_placement
from tests.planning.builders import make_plan
from tests.planning.test_decision import FOUR, running


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return make_plan(tmp_path, FOUR, nodes=2, replicas=2, name="kimi")


def actions(decision: Decision) -> list[str]:
    return [one.action for one in decision.replicas]


def test_only_replicas_that_differ_are_rolled(plan: Plan) -> None:
    states = [running(node) for node in plan.nodes]
    first = plan.nodes[0]
    states[0] = running(first, labels={**states[0].labels, "orc.spec": "another"})
    decision = rolled(decide(plan, states, replace=True))
    assert actions(decision) == ["restart", "keep"]


def test_all_are_rolled_where_none_differs_but_for_those_that_are_done(plan: Plan) -> None:
    same = decide(plan, [running(node) for node in plan.nodes], replace=True)
    assert actions(rolled(same)) == ["restart", "restart"]
    assert actions(rolled(same, done=[0])) == ["keep", "restart"]


def test_a_roll_removes_nothing_and_leaves_the_kv_store_alone(plan: Plan) -> None:
    extra = running(plan.nodes[0])
    decision = Decision(
        (
            ReplicaDecision(-1, "restart", ("kv_master differs",)),
            ReplicaDecision(0, "keep"),
            ReplicaDecision(1, "remove", (), (extra,)),
            ReplicaDecision(2, "remove", (), (replace(extra, status="exited"),)),
        )
    )
    assert rolled(decision).refusals == (
        "the KV store is not as planned (kv_master differs), and all replicas hang on it: orc up",
        "replica 1 runs and is not in the plan; a roll removes nothing: orc up --replace",
    )


async def answered(request: httpx.Request | dict[str, Any], receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"served"})


def test_health_alone_is_refused_while_draining_and_an_old_mark_means_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = tmp_path / "marker"
    module = types.ModuleType("orc_drain")
    exec(draining.SOURCE.replace(draining.MARKER, str(marker)), module.__dict__)
    transport = httpx.ASGITransport(app=module.Drain(answered))

    def ask(path: str) -> int:
        async def get() -> int:
            async with httpx.AsyncClient(transport=transport, base_url="http://engine") as client:
                return (await client.get(path)).status_code

        return asyncio.run(get())

    assert (ask("/health"), ask("/v1/models")) == (200, 200)
    marker.touch()
    assert (ask("/health"), ask("/v1/models")) == (503, 200)
    earlier = time.time() - 60
    os.utime(marker, (earlier, earlier))
    assert ask("/health") == 200


def test_the_users_own_python_path_goes_before_ours() -> None:
    assert draining.drain_environment({}) == {"PYTHONPATH": "/etc/orc"}
    assert draining.drain_environment({"PYTHONPATH": "/a"}) == {"PYTHONPATH": "/a:/etc/orc"}


def test_a_replica_that_a_roll_has_stopped_keeps_its_place(plan: Plan) -> None:
    states = [running(node) for node in plan.nodes]
    wanted = running_placement(plan.name, states)
    stopped = [
        replace(state, name=f"{state.name}-before", status="exited")
        if state.replica == 0
        else state
        for state in states
    ]
    assert running_placement(plan.name, stopped) == wanted
    assert list(wanted) == [0, 1]
