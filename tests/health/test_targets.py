"""The endpoints of a plan and of what runs are the same, by data-parallel rank too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator.health.targets import plan_targets, running_targets, spec_target
from tests.planning.builders import make_plan
from tests.planning.test_decision import running

MOE: dict[str, Any] = {"recipe": "moonshotai/Kimi-K2.6", "nodes": 2}


@pytest.mark.parametrize(
    ("selection", "ranks"),
    [
        ({"strategy": "multi_node_tp_pp"}, [()]),
        ({"strategy": "single_node_dep", "nodes": 1}, [(*range(8),)]),
        ({"strategy": "multi_node_dep"}, [(*range(8),), (*range(8, 16),)]),
        ({"strategy": "multi_node_dep", "load_balancing": "internal"}, [(*range(16),)]),
        (
            {"strategy": "multi_node_dep", "load_balancing": "external", "parallel": {"tensor": 8}},
            [(0,), (1,)],
        ),
        (
            {
                "strategy": "pd_cluster",
                "pools": {
                    "prefill": {"nodes": 1, "parallelism": "tep"},
                    "decode": {"nodes": 1, "parallelism": "dep"},
                },
            },
            [(), (*range(8),)],
        ),
    ],
)
def test_an_endpoint_knows_the_data_parallel_ranks_behind_it(
    tmp_path: Path, selection: dict[str, Any], ranks: list[tuple[int, ...]]
) -> None:
    made = make_plan(tmp_path, **(MOE | selection))
    assert [target.data_ranks for target in plan_targets(made)] == ranks
    states = [running(node) for node in made.nodes]
    assert running_targets(states) == plan_targets(made)


def test_a_router_is_asked_for_its_own_health(tmp_path: Path) -> None:
    made = make_plan(tmp_path, **MOE, strategy="multi_node_dep")
    assert made.router is not None
    planned = spec_target(made.router, made)
    assert (planned.health_path, planned.data_ranks) == ("/liveness", ())
    assert running_targets([running(made.router)]) == [planned]
    assert {target.health_path for target in plan_targets(made)} == {"/health"}
