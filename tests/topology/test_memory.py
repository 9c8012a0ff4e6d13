"""The memory estimate of a GPU, layers by memory, and what is refused or noted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import PlanError
from orchestrator.recipes.resolved import Argument, CommandParts, ModelShape
from orchestrator.topology.kv_cache import KvCache, kv_cache, tokens
from orchestrator.topology.layout import GpuMemory, Sizes, Slot
from orchestrator.topology.memory import memory_lines, sum_text
from orchestrator.topology.pipeline import split_by_memory
from orchestrator.topology.weights import GIB, weights
from tests.topology.builders import layout, recipe, slots

LLAMA_70B = ModelShape(layers=80, attention_heads=64, kv_heads=8, hidden_size=8192, head_dim=128)
DEEPSEEK = ModelShape(
    layers=61,
    attention_heads=128,
    kv_heads=1,
    kv_latent=576,
    hidden_size=7168,
    experts=256,
    moe_intermediate_size=2048,
)
DENSE = {"parameters": 70e9, "precision": "bf16", "context_length": 131072}
MIXTURE = {
    "parameters": 671e9,
    "active_parameters": 37e9,
    "precision": "fp8",
    "mixture_of_experts": True,
}


def parts(**arguments: str) -> CommandParts:
    flags = {f"--{name.replace('_', '-')}": value for name, value in arguments.items()}
    return CommandParts(
        tuple(
            Argument(flag, (flag, value) if value else (flag,), "user")
            for flag, value in flags.items()
        )
    )


def with_memory(*gib: float, gpus: int = 8) -> list[Slot]:
    return [
        replace(slot, gpu_memory=memory)
        for slot, memory in zip(slots(*[gpus] * len(gib)), gib, strict=True)
    ]


def test_dense_weights_are_cut_over_tensor_ranks_and_stages_and_every_data_rank_has_its_own() -> (
    None
):
    found = weights(recipe("single_node_tp", LLAMA_70B, **DENSE), parts())
    assert found is not None
    whole = 140e9 / GIB
    assert found.total == pytest.approx(whole)
    assert found.of_gpu(Sizes(tensor=8), 1.0) == pytest.approx(whole / 8)
    assert found.of_gpu(Sizes(tensor=8, pipeline=2), 0.5) == pytest.approx(whole / 16)
    assert found.of_gpu(Sizes(tensor=4, data=2), 1.0) == pytest.approx(whole / 4)


def test_experts_are_dealt_over_tensor_and_data_ranks_and_the_dense_part_is_not() -> None:
    found = weights(recipe("multi_node_dep", DEEPSEEK, **MIXTURE), parts())
    assert found is not None and found.dense is not None
    assert 10e9 / GIB < found.dense < 37e9 / GIB
    sizes = Sizes(tensor=1, data=16, expert_parallel=True)
    assert found.of_gpu(sizes, 1.0) == pytest.approx(
        found.dense + (found.total - found.dense) * 16 / 256
    )
    uneven = Sizes(tensor=1, data=24, expert_parallel=True)
    assert found.of_gpu(uneven, 1.0) == pytest.approx(
        found.dense + (found.total - found.dense) * 11 / 256
    )
    assert found.least_of_gpu(sizes, 1.0) == pytest.approx(0.95 * found.total / 16)


def test_without_a_shape_the_active_parameters_stand_for_the_dense_part() -> None:
    found = weights(recipe("multi_node_dep", ModelShape(), **MIXTURE), parts())
    assert found is not None
    assert found.dense == pytest.approx(37e9 / GIB)


@pytest.mark.parametrize(
    ("more", "gigabytes"),
    [
        ({"vram_minimum_gb": 714, "parameters": 1e12, "precision": "int4"}, 595),
        ({"parameters": 1e12, "precision": "int4"}, 500),
        ({"shape": ModelShape(weights_gb=594.2), "vram_minimum_gb": 714}, 594.2),
    ],
)
def test_weights_come_from_the_files_else_the_recipes_minimum_else_the_parameters(
    more: dict[str, Any], gigabytes: float
) -> None:
    shape = more.pop("shape", ModelShape())
    found = weights(recipe("single_node_tp", shape, **more), parts())
    assert found is not None
    assert found.total * GIB / 1e9 == pytest.approx(gigabytes)


@pytest.mark.parametrize(
    "arguments",
    [{"quantization": "fp8"}, {"hf_overrides": "{}"}, {"offload_group_size": "2"}],
)
def test_weights_that_vllm_changes_while_loading_are_not_known(arguments: dict[str, str]) -> None:
    assert weights(recipe("single_node_tp", LLAMA_70B, **DENSE), parts(**arguments)) is None


def test_weights_in_host_memory_take_none_of_the_gpu() -> None:
    found = weights(recipe("single_node_tp", LLAMA_70B, **DENSE), parts(cpu_offload_gb="10"))
    assert found is not None
    assert found.of_gpu(Sizes(tensor=8), 1.0) == pytest.approx(140e9 / GIB / 8 - 10)


@pytest.mark.parametrize(
    ("shape", "sizes", "width", "bytes_per_token"),
    [
        (LLAMA_70B, Sizes(tensor=1), 2, 80 * 2 * 8 * 128 * 2),
        (LLAMA_70B, Sizes(tensor=4), 2, 80 * 2 * 2 * 128 * 2),
        (LLAMA_70B, Sizes(tensor=16), 2, 80 * 2 * 1 * 128 * 2),  # replicated
        (LLAMA_70B, Sizes(tensor=8), 1, 80 * 2 * 128),
        (DEEPSEEK, Sizes(tensor=8), 2, 61 * 576 * 2),
        (DEEPSEEK, Sizes(tensor=8, decode_context=8), 2, 61 * 576 * 2 / 8),
        (replace(LLAMA_70B, kv_layers=20), Sizes(tensor=8), 2, 20 * 2 * 128 * 2),
    ],
)
def test_the_kv_cache_of_a_token_is_counted_as_vllm_does(
    shape: ModelShape, sizes: Sizes, width: float, bytes_per_token: float
) -> None:
    found = KvCache(shape, 65536, width).of_gpu(sizes, shape.layers or 0)
    assert found == pytest.approx(65536 * bytes_per_token / GIB)


def test_the_context_is_the_users_else_the_recipes_and_auto_is_not_known() -> None:
    base = recipe("single_node_tp", LLAMA_70B, **DENSE)
    given = [kv_cache(base, parts(max_model_len=text)) for text in ("32768", "32k", "32K")]
    assert [cache.context for cache in given if cache] == [32768, 32000, 32768]
    assert kv_cache(base, parts(max_model_len="auto")) is None
    assert tokens("-1") is None
    default = kv_cache(base, parts(kv_cache_dtype="fp8_e4m3"))
    assert default is not None
    assert (default.context, default.width) == (131072, 1.0)


def test_the_sum_is_shown_with_its_terms() -> None:
    one = GpuMemory("", 0, ("a",), 61, 129.7, 4.0, 37.2, 30.0, 3.1, 262144)
    assert sum_text(one) == (
        "weights 37.2 + KV cache 3.1 (1 sequence of 262144) + overhead 4.0 = "
        "44.3 of 129.7 GiB usable"
    )
    assert one.left == pytest.approx(85.4)


def test_weights_that_certainly_do_not_fit_are_refused_with_the_sum_and_a_way_out() -> None:
    with pytest.raises(PlanError) as caught:
        layout(
            "multi_node_tp",
            with_memory(24, 24, 24, 24, gpus=2),
            nodes=2,
            shape=LLAMA_70B,
            recipe=DENSE,
        )
    assert "weights 31.0 at least + overhead 0.5 = 31.5 of 22.1 GiB usable" in str(caught.value)
    assert "70 billion parameters x 2 bytes" in str(caught.value)
    assert "; tensor 8 on 4 nodes (8 GPUs)" in str(caught.value)
    assert "6 such GPUs or more for a replica" in str(caught.value)  # 123.9 / 21.6 = 5.7
    assert "check_memory: false plans it all the same" in str(caught.value)


def test_who_insists_has_a_note_instead_of_the_refusal() -> None:
    result = layout(
        "multi_node_tp",
        with_memory(24, 24, gpus=2),
        nodes=2,
        shape=LLAMA_70B,
        recipe=DENSE,
        check_memory=False,
    )
    (note,) = [note for note in result.notes if "do not fit" in note]
    assert "weights 31.0 at least + overhead 0.5 = 31.5 of 22.1 GiB usable" in note
    assert note.endswith("check_memory is false, so they are tried all the same")


@pytest.mark.parametrize(
    ("more", "gigabytes"),
    [
        ({}, 0.95 * 1488),
        ({"fewest_parameters": 743.5e9}, 0.98 * 1487),
        ({"fewest_parameters": 743.5e9, "vram_minimum_gb": 900}, 0.95 * 750),
        ({"fewest_parameters": 500e9}, 0.95 * 1488),
        ({"fewest_parameters": 743.5e9, "shape": ModelShape(weights_gb=1500.0)}, 1500),
    ],
    ids=["rounded", "agreeing", "another model", "one digit", "files"],
)
def test_weights_are_certain_as_far_as_their_sources_agree(
    more: dict[str, Any], gigabytes: float
) -> None:
    known = {"parameters": 744e9, "precision": "bf16", "vram_minimum_gb": 1786, **more}
    found = weights(recipe("single_node_tp", **known), parts())
    assert found is not None
    assert found.least == pytest.approx(gigabytes * 1e9 / GIB, rel=1e-3)


def test_a_stage_that_cannot_hold_its_layers_is_refused_with_every_stage_shown() -> None:
    with pytest.raises(PlanError) as caught:
        layout(
            "multi_node_tp_pp",
            with_memory(80, 24, gpus=2),
            shape=LLAMA_70B,
            recipe=DENSE,
            layer_partition=[40, 40],
        )
    message = str(caught.value)
    assert "stage 0 (node01, 40 layers): weights 31.0 at least" in message
    assert "stage 1 (node02, 40 layers): weights 31.0 at least" in message
    assert "of 22.1 GiB usable" in message


def test_what_is_short_by_estimate_alone_is_a_note_with_a_context_that_would_fit() -> None:
    result = layout(
        "single_node_tp",
        with_memory(24),
        shape=LLAMA_70B,
        recipe={**DENSE, "context_length": 2**20},
    )
    (note,) = result.notes
    assert note.startswith("memory is short by estimate: weights 16.3 + KV cache 40.0")
    assert "a max-model-len of " in note


def test_the_context_that_would_fit_is_none_that_the_model_does_not_have() -> None:
    asked = Argument("--max-model-len", ("--max-model-len", str(2**20)), "user")
    result = layout(
        "single_node_tp",
        with_memory(24),
        shape=LLAMA_70B,
        recipe={**DENSE, "context_length": 8192},
        arguments=(asked,),
    )
    (note,) = result.notes
    assert note.endswith("; a max-model-len of 8192 would fit")


def test_nothing_is_said_where_nothing_is_known() -> None:
    assert layout("single_node_tp", slots(8)).memory == ()
    assert layout("single_node_tp", with_memory(80), shape=ModelShape()).notes == ()
    cpu = replace(recipe("single_node_tp").hardware, generation="cpu", brand="CPU")
    tiny = layout(
        "single_node_tp", with_memory(0.1), shape=LLAMA_70B, recipe=DENSE, hardware_profile=cpu
    )
    assert tiny.memory == ()


def test_a_lower_share_of_the_gpu_is_taken_into_account() -> None:
    share = Argument("--gpu-memory-utilization", ("--gpu-memory-utilization", "0.5"), "user")
    result = layout(
        "single_node_tp", with_memory(80), shape=LLAMA_70B, recipe=DENSE, arguments=(share,)
    )
    assert result.memory[0].usable == 40.0
    assert memory_lines(result)[0].endswith("of 40.0 GiB usable, 14.7 left")


def test_layers_follow_the_memory_of_the_hosts() -> None:
    result = layout("multi_node_tp_pp", with_memory(80, 40), shape=LLAMA_70B, recipe=DENSE)
    assert result.layer_partition == (54, 26)
    assert all(node.layer_partition == result.layer_partition for node in result.nodes)
    first, second = (node.ranks[0].layers for node in result.nodes)
    assert first and second and first[1] == second[0] == result.layer_partition[0]
    assert any("in proportion to the memory of their GPUs (80, 40 GiB)" in n for n in result.notes)
    full, half = result.memory
    assert full.needed / full.usable == pytest.approx(half.needed / half.usable, abs=0.05)


@pytest.mark.parametrize(
    ("hosts", "shape"),
    [
        (with_memory(80, 80), LLAMA_70B),
        (with_memory(80, 79.6), LLAMA_70B),
        (with_memory(80, 40), ModelShape()),
        (slots(8, 8), LLAMA_70B),
    ],
)
def test_layers_are_vllms_own_where_memories_are_alike_or_not_known(
    hosts: list[Slot], shape: ModelShape
) -> None:
    assert layout("multi_node_tp_pp", hosts, shape=shape).layer_partition is None


def test_the_users_partition_wins_over_memory() -> None:
    result = layout(
        "multi_node_tp_pp", with_memory(80, 40), shape=LLAMA_70B, layer_partition=[40, 40]
    )
    assert result.layer_partition is None  # as vLLM would split them
    assert result.nodes[0].ranks[0].layers == (0, 40)


def test_each_replica_gets_the_layers_that_its_own_hosts_can_hold() -> None:
    result = layout(
        "multi_node_tp_pp",
        with_memory(80, 40, 80, 80, 40, 80),
        nodes=2,
        replicas=3,
        shape=LLAMA_70B,
    )
    splits = [node.layer_partition for node in result.nodes if node.rank == 0]
    assert splits[0] is not None and splits[2] == splits[0][::-1]
    assert splits[1] is None


def test_a_stage_over_several_hosts_counts_as_its_smallest_gpu() -> None:
    result = layout(
        "multi_node_tp_pp",
        with_memory(80, 40, 80, 80),
        parallel={"tensor": 16},
        shape=LLAMA_70B,
    )
    assert result.layer_partition is not None
    assert result.layer_partition[0] < result.layer_partition[1]


@given(
    memory=st.lists(st.floats(0.01, 300), min_size=1, max_size=32),
    extra=st.integers(0, 100),
)
def test_a_split_by_memory_loses_no_layer_and_leaves_no_stage_without_one(
    memory: list[float], extra: int
) -> None:
    layers = len(memory) + extra
    split = split_by_memory(layers, memory)
    assert sum(split) == layers
    assert len(split) == len(memory)
    assert min(split) >= 1
    for one, size in zip(split, memory, strict=True):
        if one > 1:  # no stage has a whole layer more than its share, but for rounding
            assert one < layers * size / sum(memory) + 1 + 1e-6
