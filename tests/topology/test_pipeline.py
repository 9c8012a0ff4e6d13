"""The split of layers over pipeline stages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import PlanError
from orchestrator.topology.pipeline import check_partition, layer_ranges, vllm_layer_split


@pytest.mark.parametrize(
    ("stages", "split"),
    [(1, (61,)), (2, (31, 30)), (3, (20, 21, 20)), (4, (15, 15, 16, 15))],
)
def test_61_layers_are_split_as_vllm_splits_them(stages: int, split: tuple[int, ...]) -> None:
    assert vllm_layer_split(61, stages) == split


@given(st.integers(1, 200), st.integers(1, 32))
def test_a_split_loses_no_layer_and_differs_by_one_at_most(layers: int, stages: int) -> None:
    split = vllm_layer_split(layers, stages)
    assert sum(split) == layers
    assert len(split) == stages
    assert max(split) - min(split) <= 1


def test_ranges_are_half_open_and_adjacent() -> None:
    assert layer_ranges((31, 30)) == [(0, 31), (31, 61)]


@pytest.mark.parametrize(
    ("partition", "message"),
    [
        ((30, 31, 0), "has 3 numbers for 2 pipeline stages"),
        ((61, 0), "leaves a stage without a layer"),
        ((30, 30), r"30 \+ 30 = 60, but the model has 61 layers"),
    ],
)
def test_a_partition_that_vllm_would_reject_late_is_refused(
    partition: tuple[int, ...], message: str
) -> None:
    with pytest.raises(PlanError, match=message):
        check_partition(partition, 2, 61)
