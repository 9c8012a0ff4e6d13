"""Random recipes of the schema with random selections."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.deployment import Deployment
from orchestrator.documents import Document
from orchestrator.errors import OrcError
from orchestrator.recipes.arguments import is_flag, parse
from orchestrator.recipes.catalog import Catalog
from orchestrator.recipes.explain import explain
from orchestrator.recipes.flags import PARALLEL_FLAGS
from orchestrator.recipes.recipe_file import RecipeFile
from orchestrator.recipes.schema import Recipe
from orchestrator.recipes.validate import faults

CATALOG = Catalog.load()
FLAGS = ["--a", "--b", "--no-a", "-tp", "--tensor_parallel_size=2", "--data-parallel-size", "-dcp"]
FLAGS += ["--headless", "--nnodes", "--distributed-executor-backend", "--enable-expert-parallel"]
FLAGS += ["--c.d", "--c.d=1", "-cc.x=1", "-O3", "--max-model-len", "--port", "--", "-"]
WORDS = st.sampled_from([*FLAGS, "-1", "-0.5", "1", "2", "value", "{}"])
ARGS = st.lists(WORDS, max_size=6)
ENV = st.dictionaries(st.sampled_from(["A", "B", "NCCL_MNNVL_ENABLE"]), st.sampled_from("12"))
PROFILES = st.sampled_from(["h100", "h200", "gb200", "mi300x", "mi355x", "cpu", "xeon6"])
KEYS = st.sampled_from(["h200", "gb200", "hopper", "blackwell", "amd", "nvidia", "cpu", "default"])
NAMES = st.sampled_from(["default", "v1", "v2"])
FEATURES = st.sampled_from(["f1", "f2", "text_only", "encoder_parallel"])
STRATEGIES = st.sampled_from([*CATALOG.strategies, *CATALOG.kv_stores])
SUPPORT = st.sampled_from(["verified", "supported", "unsupported"])


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A mapping with any of these keys."""
    return st.fixed_dictionaries({}, optional=fields)


def by(keys: st.SearchStrategy[str], values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(keys, values, max_size=3)


SIZE = st.one_of(st.integers(1, 16), by(KEYS, st.integers(1, 16)))
OVERRIDE = some(extra_args=ARGS, extra_env=ENV)
MODE = some(
    args=ARGS,
    env=ENV,
    variants=st.lists(NAMES, max_size=2),
    hardware=by(KEYS, SUPPORT),
    hardware_overrides=by(KEYS, some(args=ARGS, env=ENV)),
)
FEATURE = st.one_of(
    some(
        args=ARGS,
        env=ENV,
        strategies=st.lists(STRATEGIES, max_size=2),
        excludes=st.lists(FEATURES, max_size=2),
        hardware=by(KEYS, SUPPORT),
        hardware_overrides=by(KEYS, some(args=ARGS, env=ENV)),
    ),
    st.fixed_dictionaries(
        {"modes": st.dictionaries(st.sampled_from(["m1", "m2"]), MODE, min_size=1)}
    ),
)
VARIANT = some(
    model_id=st.just("org/other"),
    precision=st.sampled_from(["fp8", "nvfp4"]),
    vram_minimum_gb=st.integers(0, 5000),
    tp=SIZE,
    extra_args=ARGS,
    extra_env=ENV,
    hardware_overrides=by(KEYS, OVERRIDE),
    default_modes=by(FEATURES, st.sampled_from(["m1", "m2"])),
    supported_hardware=st.lists(PROFILES, max_size=2),
    docker_image=st.sampled_from(["a:1", "a:v0.10.0", {"amd": "b:1"}, {"cu130": "c:1"}]),
)
POOL = some(
    nodes=SIZE,
    parallelism=st.sampled_from(["tp", "tep", "dep"]),
    tp=st.integers(1, 8),
    extra_args=ARGS,
    vllm_args=ARGS,
    env=ENV,
    hardware_overrides=by(KEYS, OVERRIDE),
)
STRATEGY_OVERRIDE = some(
    tp=SIZE,
    extra_args=ARGS,
    vllm_args=ARGS,
    env=ENV,
    extra_env=ENV,
    hardware_overrides=by(KEYS, OVERRIDE),
    prefill=POOL,
    decode=POOL,
    pool_modes=st.lists(st.sampled_from(["tp", "tep", "dep"]), max_size=2),
)
RECIPES = st.fixed_dictionaries(
    {
        "meta": some(
            hardware=by(PROFILES, SUPPORT), default_variant=NAMES, default_hardware=PROFILES
        ).map(lambda meta: meta | {"title": "t"}),
        "model": some(
            base_args=ARGS,
            base_env=ENV,
            architecture=st.sampled_from(["dense", "moe"]),
            default_frontend=st.sampled_from(["rust", "python", {"default": "rust"}]),
            shape=some(layers=st.integers(1, 99), kv_heads=st.integers(1, 99)),
        ).map(lambda model: model | {"model_id": "org/model"}),
        "variants": st.dictionaries(NAMES, VARIANT, min_size=1),
    },
    optional={
        "features": by(FEATURES, FEATURE),
        "opt_in_features": st.lists(FEATURES, max_size=2),
        "hardware_opt_in_features": by(PROFILES, st.lists(FEATURES, max_size=1)),
        "compatible_strategies": st.lists(STRATEGIES, max_size=6),
        "default_strategy": STRATEGIES,
        "strategy_overrides": by(STRATEGIES, STRATEGY_OVERRIDE),
        "strategy_hardware": by(STRATEGIES, by(KEYS, SUPPORT)),
        "strategy_min_gpus": st.one_of(
            st.integers(0, 64), by(st.one_of(STRATEGIES, PROFILES), st.integers(0, 64))
        ),
        "hardware_overrides": by(KEYS, OVERRIDE),
        "kv_offload_support": by(st.sampled_from(["simple", "lmcache"]), SUPPORT),
        "omni": some(port=st.integers(1, 9), tasks=st.just(["t2v", {"id": "i2v"}])),
    },
)
SELECTIONS = some(
    variant=st.one_of(NAMES, st.just("unknown")),
    strategy=st.one_of(STRATEGIES, st.just("unknown")),
    nodes=st.integers(1, 4),
    features=st.lists(
        st.sampled_from(["f1", "+f2", "-f1", "text_only", "f1=m1", "f2=m9", "unknown"]), max_size=3
    ),
    args=by(
        st.sampled_from(["a", "no-a", "tensor-parallel-size", "c", "c.d"]),
        st.sampled_from([None, True, False, 1, "x", [1, 2], {"k": 1}]),
    ),
    env=ENV,
    kv_offload=st.sampled_from(["simple", "lmcache", *CATALOG.kv_stores, "unknown"]),
    pools=by(
        st.sampled_from(["prefill", "decode"]),
        st.one_of(st.integers(1, 3), st.just({"nodes": 2, "parallelism": "dep"})),
    ),
)


def resolve_once(recipe: Recipe, deployment: Deployment, hardware: str) -> Any:
    """What comes out, or the message of our own error; any other error is a failure."""
    document = Document(path="recipe.yaml", text="", data=None)
    catalog = Catalog(CATALOG.directories, {"org/name": RecipeFile("org/name", recipe, document)})
    list(faults(catalog.recipe("org/name"), catalog))
    try:
        selection = catalog.select(deployment, hardware, nodes=deployment.nodes)
        return catalog.resolve(deployment, hardware), explain(selection, deployment)
    except OrcError as error:
        return str(error)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(RECIPES, SELECTIONS, PROFILES)
def test_a_resolution_is_repeatable_and_raises_only_our_own_errors(
    data: dict[str, Any], selection: dict[str, Any], hardware: str
) -> None:
    deployment = Deployment.model_validate({"recipe": "org/name", **selection})
    first = resolve_once(Recipe.model_validate(data), deployment, hardware)
    assert first == resolve_once(Recipe.model_validate(data), deployment, hardware)
    if isinstance(first, str):
        return
    resolved, _ = first
    for parts in [pool.parts for pool in resolved.pools.values()] or [resolved.parts]:
        flags = [item.flag for item in parts.arguments if item.flag]
        assert len(flags) == len(set(flags))
        assert not (PARALLEL_FLAGS - {"--distributed-executor-backend"}) & set(flags)
        assert set(parts.fixed_parallel) <= PARALLEL_FLAGS
        assert 0 <= parts.parallel_position <= len(parts.arguments)
        assert all(isinstance(value, str) for value in parts.env.values())
        argv = resolved.pool_argv(parts)
        assert [w for item in parts.arguments for w in item.tokens] == argv[3:]


@given(st.lists(WORDS))
def test_parsing_keeps_every_word_in_its_place(words: list[str]) -> None:
    parsed = parse(words, "layer")
    assert [word for item in parsed for word in item.tokens] == words
    assert all(item.flag or not is_flag(item.tokens[0]) for item in parsed)
