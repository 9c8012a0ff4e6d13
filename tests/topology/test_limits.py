"""What a model's shape allows, by vLLM's rules; each refusal states its equation."""

from __future__ import annotations

import re
from typing import Any

import pytest

from orchestrator.errors import PlanError
from orchestrator.recipes.resolved import ModelShape
from orchestrator.topology.layout import Sizes
from orchestrator.topology.limits import Mixture, check_shape
from tests.topology.builders import layout, slots

GQA = ModelShape(layers=36, attention_heads=64, kv_heads=8, head_dim=128)
MLA = ModelShape(layers=61, attention_heads=128, kv_heads=1, kv_latent=576)
MOE = ModelShape(experts=128, moe_intermediate_size=1536)

ALLOWED: list[tuple[str, ModelShape, dict[str, Any], dict[str, Any]]] = [
    ("KV heads replicated", GQA, {"tensor": 32}, {}),
    ("KV heads shared out", GQA, {"tensor": 4}, {}),
    ("latent attention on any divisor of the heads", MLA, {"tensor": 128}, {}),
    ("nothing known", ModelShape(), {"tensor": 7, "pipeline": 99, "data": 5}, {}),
    (
        "experts that do not come out even",
        MOE,
        {"tensor": 1, "data": 24, "expert_parallel": True},
        {},
    ),
    (
        "redundant experts that make it even",
        MOE,
        {"tensor": 1, "data": 24, "expert_parallel": True},
        {"mixture": Mixture(redundant=16)},
    ),
    (
        "whole experts whatever the block",
        ModelShape(experts=128, moe_intermediate_size=1536, quantization_block=128),
        {"tensor": 16, "expert_parallel": True},
        {},
    ),
    ("decode context of latent attention", MLA, {"tensor": 8, "decode_context": 8}, {}),
    ("decode context of grouped heads", GQA, {"tensor": 32, "decode_context": 4}, {}),
    (
        "decode context over all ranks beside prefill context",
        MLA,
        {"tensor": 4, "prefill_context": 2, "decode_context": 8},
        {},
    ),
    ("a moved cache cut over all", MLA, {"tensor": 8, "decode_context": 8}, {"moves_kv": True}),
]

REFUSED: list[tuple[str, ModelShape, dict[str, Any], dict[str, Any], str]] = [
    ("heads", GQA, {"tensor": 48}, {}, r"64 % 48 = 16(.|\n)*allows: 1, 2, 4, 8, 16, 32, 64$"),
    (
        "KV heads between",
        ModelShape(attention_heads=48, kv_heads=8),
        {"tensor": 12},
        {},
        r"8 KV heads .* tensor size 12: 12 % 8 = 4(.|\n)*allows: 1, 2, 4, 8, 16, 24, 48$",
    ),
    (
        "KV heads that are cut",
        ModelShape(attention_heads=24, kv_heads=8),
        {"tensor": 3},
        {},
        r"tensor size 3: 8 % 3 = 2(.|\n)*allows: 1, 2, 4, 8, 24$",
    ),
    (
        "expert parallel of a dense model",
        GQA,
        {"tensor": 8, "expert_parallel": True},
        {"mixture": Mixture(is_one=False)},
        r"is a dense model and has no experts",
    ),
    (
        "more ranks than experts",
        ModelShape(experts=16),
        {"tensor": 8, "data": 4, "expert_parallel": True},
        {},
        r"16 experts .* than the 32 ranks .*: tensor 8 x data 4 = 32",
    ),
    (
        "expert load balancing that is uneven",
        MOE,
        {"tensor": 1, "data": 24, "expert_parallel": True},
        {"mixture": Mixture(redundant=0)},
        r"128 \+ 0 redundant .* over 24 ranks: 128 % 24 = 8(.|\n)*redundant_experts: 16",
    ),
    (
        "experts cut over tensor and data ranks",
        ModelShape(experts=8, moe_intermediate_size=1536, quantization_block=128),
        {"tensor": 4, "data": 4},
        {},
        r"tensor 4 x data 4 = 16: 1536 / 16 = 96 is not a multiple of the .*block 128"
        r"(.|\n)*allows: 1, 2, 3, 4, 6, 12;",
    ),
    (
        "experts that do not divide",
        ModelShape(experts=8, moe_intermediate_size=1408),
        {"tensor": 6},
        {},
        r"over tensor size 6: 1408 % 6 = 4",
    ),
    ("stages", GQA, {"pipeline": 40}, {}, r"36 layers, fewer than 40(.|\n)*at most 36"),
    (
        "decode context of few ranks",
        GQA,
        {"tensor": 8, "decode_context": 2},
        {},
        r"8 // 8 = 1(.|\n)*above 8",
    ),
    (
        "decode context that cuts query heads",
        ModelShape(attention_heads=48, kv_heads=4),
        {"tensor": 32, "decode_context": 8},
        {},
        r"48 % 32 = 16",
    ),
    (
        "decode context that does not divide the query heads",
        ModelShape(attention_heads=48, kv_heads=2),
        {"tensor": 48, "decode_context": 16},
        {},
        r"48 / 2 = 24, 24 % 16 = 8(.|\n)*work: 1, 2, 3, 4, 6, 8, 12, 24$",
    ),
    (
        "decode context beside prefill context",
        MLA,
        {"tensor": 4, "prefill_context": 2, "decode_context": 4},
        {},
        r"tensor 4 x prefill context 2 = 8(.|\n)*work: 1, 2, 8$",
    ),
    (
        "a moved cache cut over some",
        MLA,
        {"tensor": 8, "decode_context": 4},
        {"moves_kv": True},
        r"1 or max\(tensor 8, prefill context 1\) = 8",
    ),
]


@pytest.mark.parametrize(
    ("shape", "sizes", "more"), [pytest.param(*case[1:], id=case[0]) for case in ALLOWED]
)
def test_what_vllm_runs_is_let_through(
    shape: ModelShape, sizes: dict[str, Any], more: dict[str, Any]
) -> None:
    check_shape(shape, Sizes(**sizes), "org/model", **more)


@pytest.mark.parametrize(
    ("shape", "sizes", "more", "message"),
    [pytest.param(*case[1:], id=case[0]) for case in REFUSED],
)
def test_what_vllm_breaks_on_is_refused_with_the_equation(
    shape: ModelShape, sizes: dict[str, Any], more: dict[str, Any], message: str
) -> None:
    with pytest.raises(PlanError) as caught:
        check_shape(shape, Sizes(**sizes), "org/model", **more)
    assert re.search(message, str(caught.value)), str(caught.value)


HERE: list[tuple[str, str, list[int], dict[str, Any], str]] = [
    (
        "40 heads over 16 GPUs (vllm#5003)",
        "multi_node_tp",
        [8, 8],
        {"shape": ModelShape(layers=40, attention_heads=40, kv_heads=8)},
        "on these hosts: tensor 8 x pipeline 2 on 2 nodes (16 GPUs)",
    ),
    (
        "blocks over 16 GPUs (recipes#497)",
        "multi_node_tp",
        [8, 8],
        {
            "shape": ModelShape(
                attention_heads=64, moe_intermediate_size=3072, quantization_block=128
            )
        },
        "on these hosts: tensor 8 x pipeline 2 on 2 nodes (16 GPUs)",
    ),
    (
        "a third host that makes it uneven",
        "multi_node_tp",
        [8, 8, 8],
        {"shape": ModelShape(attention_heads=64, kv_heads=8)},
        "tensor 8 x pipeline 3 on 3 nodes (24 GPUs); tensor 16 on 2 nodes (16 GPUs)",
    ),
    (
        "unequal hosts",
        "multi_node_tp",
        [8, 4],
        {},
        "on these hosts: tensor 8 on 2 nodes (8 GPUs)",
    ),
    (
        "a tensor size that no node holds",
        "single_node_tp",
        [8],
        {"parallel": {"tensor": 16}},
        "on these hosts: tensor 8 on 1 node (8 GPUs)",
    ),
    (
        "ranks that do not fill a node",
        "multi_node_dep",
        [8, 8],
        {"parallel": {"tensor": 3}, "recipe": {"mixture_of_experts": True}},
        "on these hosts: tensor 4 x data 4 on 2 nodes (16 GPUs); tensor 2 x data 8 on",
    ),
]


@pytest.mark.parametrize(
    ("strategy", "gpus", "selection", "hint"), [pytest.param(*c[1:], id=c[0]) for c in HERE]
)
def test_a_refusal_names_sizes_that_work_on_these_hosts(
    strategy: str, gpus: list[int], selection: dict[str, Any], hint: str
) -> None:
    with pytest.raises(PlanError) as caught:
        layout(strategy, slots(*gpus), **selection)
    assert hint in str(caught.value), str(caught.value)


@pytest.mark.parametrize(("heads", "kv_heads"), [(64, 8), (40, 8), (96, 12), (None, 4), (7, 1)])
@pytest.mark.parametrize("tensor", [3, 5, 6, 24])
def test_the_sizes_that_work_here_are_among_those_that_the_model_allows(
    heads: int | None, kv_heads: int, tensor: int
) -> None:
    shape = ModelShape(attention_heads=heads, kv_heads=kv_heads)
    for strategy, gpus in (("single_node_tp", [8]), ("multi_node_tp", [8, 8, 8, 8])):
        try:
            layout(strategy, slots(*gpus), shape=shape, parallel={"tensor": tensor, "pipeline": 1})
        except PlanError as refusal:
            text = str(refusal)
            allowed = re.search(r"that the model allows: ([\d, ]+)", text)
            named = re.findall(r"tensor (\d+)[^;]* on \d", text) if allowed else ()
            assert {*named} <= {*(allowed[1].split(", ") if allowed else ())}, text


def test_of_many_sizes_those_around_the_one_asked_for_are_named() -> None:
    with pytest.raises(PlanError) as caught:
        check_shape(ModelShape(attention_heads=5040 * 11), Sizes(tensor=64), "m")
    assert re.search(r"allows: \.\.\., (\d+, ){12}\.\.\.$", str(caught.value)), str(caught.value)


def test_the_sizes_that_a_refusal_names_can_really_be_laid_out() -> None:
    shape = ModelShape(layers=40, attention_heads=40, kv_heads=8)
    again = layout("multi_node_tp", slots(8, 8), shape=shape, parallel={"tensor": 8, "pipeline": 2})
    assert again.first_sizes == Sizes(tensor=8, pipeline=2)


def test_a_refusal_says_so_when_no_size_works_here() -> None:
    with pytest.raises(PlanError, match="do not divide") as caught:
        layout("multi_node_tp", slots(4, 4), shape=ModelShape(attention_heads=1, layers=1))
    assert "no sizes near these work on these hosts" in str(caught.value)
