"""`build_layout` is total: whatever is asked of whatever hosts, a layout or a PlanError comes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.deployment import Deployment
from orchestrator.errors import PlanError
from orchestrator.recipes.resolved import Argument, ModelShape, ResolvedRecipe
from orchestrator.topology.build import build_layout
from orchestrator.topology.engines import STRATEGIES
from orchestrator.topology.layout import Layout, Slot
from tests.topology.builders import prefill_decode, recipe

MAYBE_SMALL = st.none() | st.integers(1, 9)
MEMORY = st.sampled_from([None, 0.5, 24.0, 80.0, 141.0])

SHAPES = st.builds(
    ModelShape,
    layers=st.none() | st.integers(1, 130),
    attention_heads=st.none() | st.sampled_from([1, 12, 40, 64, 96, 128]),
    kv_heads=st.none() | st.sampled_from([1, 2, 8, 40]),
    hidden_size=st.none() | st.sampled_from([256, 7168]),
    head_dim=st.none() | st.sampled_from([64, 128]),
    experts=st.none() | st.sampled_from([4, 8, 160, 384]),
    moe_intermediate_size=st.none() | st.sampled_from([1408, 2048]),
    quantization_block=st.none() | st.just(128),
    kv_latent=st.none() | st.just(576),
    kv_layers=st.none() | st.integers(1, 40),
    weights_gb=st.none() | st.sampled_from([0.1, 600.0]),
)
ARGUMENTS = st.lists(
    st.sampled_from(
        [
            ("--max-model-len", "auto"),
            ("--max-model-len", "1M"),
            ("--max-model-len", "nonsense"),
            ("--gpu-memory-utilization", "0.5"),
            ("--gpu-memory-utilization", "much"),
            ("--kv-cache-dtype", "fp8"),
            ("--quantization", "fp8"),
            ("--cpu-offload-gb", "4"),
            ("--enable-eplb",),
            ("--eplb-config", '{"num_redundant_experts": 32}'),
            ("--eplb-config", "[]"),
            ("--enable-expert-parallel",),
        ]
    ),
    unique_by=lambda words: words[0],
    max_size=4,
)


@st.composite
def fleets(draw: st.DrawFn) -> list[Slot]:
    """Up to nine hosts with all that may be wrong about them."""
    even = draw(st.booleans())
    gpus = draw(st.sampled_from([1, 2, 4, 8]))
    memory = draw(MEMORY)
    hosts = []
    for index in range(draw(st.integers(0, 9))):
        count = gpus if even else draw(st.sampled_from([1, 2, 3, 4, 8]))
        address = draw(st.sampled_from(["10.0.0.9", "127.0.1.1", None, "fd00::1"]))
        usual = even or draw(st.integers(0, 9)) > 0
        hosts.append(
            Slot(
                f"node{index}",
                tuple(range(count)),
                f"10.1.0.{index}" if usual else address,
                "bond0",
                memory if even else draw(MEMORY),
            )
        )
    return hosts


@st.composite
def recipes(draw: st.DrawFn) -> ResolvedRecipe:
    name = draw(st.sampled_from([*STRATEGIES, "pd_cluster", "unheard_of"]))
    if name == "pd_cluster":
        pool = st.tuples(st.integers(1, 3), st.sampled_from(["tp", "tep", "dep"]))
        base = prefill_decode(draw(pool), draw(pool))
    else:
        base = recipe(name)
    words = [(w[0], w) for w in draw(ARGUMENTS)]
    more = tuple(Argument(flag, tokens, "user") for flag, tokens in words)
    return replace(
        base,
        shape=draw(SHAPES),
        arguments=() if base.pools else (*base.arguments, *more),
        mixture_of_experts=draw(st.booleans()),
        fitted_tensor=draw(st.none() | st.sampled_from([1, 2, 8])),
        vram_minimum_gb=draw(st.none() | st.sampled_from([1.0, 170.0, 2000.0])),
        parameters=draw(st.none() | st.sampled_from([3e6, 70e9, 1e12])),
        active_parameters=draw(st.none() | st.just(32e9)),
        precision=draw(st.none() | st.sampled_from(["bf16", "fp8", "nvfp4", "odd"])),
        context_length=draw(st.none() | st.sampled_from([256, 262144])),
    )


@st.composite
def selections(draw: st.DrawFn) -> Deployment:
    sizes = ("tensor", "pipeline", "data", "prefill_context", "decode_context")
    chosen: dict[str, Any] = {
        "recipe": "org/model",
        "parallel": {name: draw(MAYBE_SMALL) for name in sizes if draw(st.booleans())},
        "nodes": draw(MAYBE_SMALL),
        "replicas": draw(st.just("max") | st.integers(1, 4)),
        "load_balancing": draw(st.none() | st.sampled_from(["hybrid", "internal", "external"])),
    }
    if draw(st.integers(0, 4)) == 0:
        chosen["layer_partition"] = draw(st.lists(st.integers(0, 60), max_size=4))
    return Deployment.model_validate(chosen)


def outcome(recipe: ResolvedRecipe, hosts: list[Slot], wanted: Deployment) -> Layout | str:
    try:
        return build_layout(recipe, hosts, wanted)
    except PlanError as error:
        return str(error)


@settings(max_examples=600, deadline=None)
@given(recipe=recipes(), hosts=fleets(), wanted=selections())
def test_every_selection_ends_in_a_layout_or_a_plan_error_and_always_in_the_same(
    recipe: ResolvedRecipe, hosts: list[Slot], wanted: Deployment
) -> None:
    first = outcome(recipe, hosts, wanted)
    assert outcome(recipe, hosts, wanted) == first
    if isinstance(first, str):
        assert len(first) > 20
        return
    _check(first)


def _check(layout: Layout) -> None:
    """What holds of every layout."""
    taken = Counter((n.slot.host, port) for n in layout.nodes for port in n.ports.values())
    assert not [place for place, count in taken.items() if count > 1]
    used = Counter((node.slot.host, gpu) for node in layout.nodes for gpu in node.gpus)
    assert not [place for place, count in used.items() if count > 1]
    groups: dict[tuple[int, str], list[int]] = {}
    for node in layout.nodes:
        pool: str = node.role if node.role in layout.sizes else ""
        groups.setdefault((node.replica, pool), []).extend(rank.world for rank in node.ranks)
    for (replica, pool), worlds in groups.items():
        assert worlds == list(range(len(worlds)))
        if replica == 0:  # later ones may be on other hosts
            assert len(worlds) == layout.sizes[pool].world
    for node in layout.nodes:
        if node.layer_partition is not None:
            assert min(node.layer_partition) >= 1
