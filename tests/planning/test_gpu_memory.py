"""Where the memory of a host's GPUs comes from, and what happens when sources disagree."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.errors import InputError, PlanError
from orchestrator.facts.host_facts import Gpu, HostFacts
from tests.planning.builders import RACK, make_plan

MIXED = RACK.replace("orc_address: 10.1.0.12", "orc_address: 10.1.0.12, orc_gpu_memory_gb: 80")


def facts(mib: int) -> HostFacts:
    return HostFacts(gpus=tuple(Gpu(index, "GPU", mib, 0) for index in range(8)))


def memories(plan: object) -> dict[str, float | None]:
    return {node.slot.host: node.slot.gpu_memory for node in plan.layout.nodes}  # type: ignore[attr-defined]


def test_the_hardware_profile_says_how_much_a_gpu_has(tmp_path: Path) -> None:
    assert memories(make_plan(tmp_path)) == {"node01": 141, "node02": 141}


def test_a_host_may_have_other_gpus_by_a_variable_and_the_layers_follow(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, MIXED)
    assert memories(plan) == {"node01": 141, "node02": 80}
    assert {node.env["VLLM_PP_LAYER_PARTITION"] for node in plan.nodes} == {"39,22"}
    assert not [note for note in plan.notes if "says 141" in note]


def test_facts_that_agree_change_nothing(tmp_path: Path) -> None:
    h200 = {"node01": facts(143771), "node02": facts(143771)}
    assert memories(make_plan(tmp_path, facts=h200)) == memories(make_plan(tmp_path))


def test_facts_that_differ_from_the_profile_count_and_are_noted_with_both_numbers(
    tmp_path: Path,
) -> None:
    plan = make_plan(tmp_path, facts={"node01": facts(143771), "node02": facts(81559)})
    assert memories(plan)["node02"] == pytest.approx(79.6, abs=0.1)
    (note,) = [note for note in plan.notes if "profile h200 says 141" in note]
    assert "the GPUs of node02 have 79.6 GiB" in note
    assert plan.layout.layer_partition == (39, 22)


def test_facts_that_contradict_the_inventorys_own_number_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"node02: orc_gpu_memory_gb is 80, but .* 39\.6 GiB"):
        make_plan(tmp_path, MIXED, facts={"node02": facts(40536)})


def test_unified_memory_that_reports_none_is_no_contradiction(tmp_path: Path) -> None:
    assert memories(make_plan(tmp_path, facts={"node01": facts(0)}))["node01"] == 141


def test_a_memory_that_is_no_size_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="orc_gpu_memory_gb"):
        make_plan(tmp_path, MIXED.replace("gb: 80", "gb: -1"))
