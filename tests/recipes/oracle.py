"""The public site's renderings, compared with what our layers come to."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from orchestrator.cli.recipe_commands import placeholder_slots
from orchestrator.deployment import Deployment
from orchestrator.errors import PlanError
from orchestrator.recipes.arguments import PARALLEL_FLAGS, parse, value_of
from orchestrator.recipes.catalog import Catalog
from orchestrator.recipes.resolved import CommandParts, ResolvedRecipe
from orchestrator.topology.build import STRATEGIES, build_layout

# Ours says these on every node of several; the site leaves them to vLLM's defaults.
OURS_ALONE = {"--master-port", "--distributed-executor-backend"}


@dataclass(frozen=True)
class Difference:
    """One rendering that differs from ours: of which kind, and both sides."""

    kind: str
    selection: str
    ours: Any
    theirs: Any


def renderings(shared: Path) -> list[dict[str, Any]]:
    with gzip.open(shared / "oracle" / "renderings.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


def name(rendering: dict[str, Any]) -> str:
    keys = ("recipe", "variant", "hardware", "strategy", "nodes")
    return " ".join(str(rendering[key]) for key in keys)


def deployment(rendering: dict[str, Any]) -> Deployment:
    return Deployment(
        recipe=rendering["recipe"],
        variant=rendering["variant"],
        strategy=rendering["strategy"],
        nodes=rendering["nodes"],
        pools=rendering.get("pd"),
    )


def resolve(catalog: Catalog, rendering: dict[str, Any]) -> ResolvedRecipe:
    return catalog.resolve(deployment(rendering), rendering["hardware"], nodes=rendering["nodes"])


@lru_cache(maxsize=65536)
def split(words: tuple[str, ...]) -> tuple[tuple[str, ...], dict[str, str]]:
    """The words outside the parallel and rank flags, and those flags with their values."""
    parsed = parse(words, "")
    rest = tuple(w for item in parsed if item.flag not in PARALLEL_FLAGS for w in item.tokens)
    return rest, {i.flag: value_of(i) for i in parsed if i.flag in PARALLEL_FLAGS}


def plain_differences(recipe: ResolvedRecipe, rendering: dict[str, Any]) -> Iterator[Difference]:
    """Model, image, environment, features, and every argument outside the parallel flags."""

    def compare(kind: str, ours: Any, theirs: Any) -> Iterator[Difference]:
        if ours != theirs:
            yield Difference(kind, name(rendering), ours, theirs)

    yield from compare("image", recipe.image, rendering["image"])
    features = [feature.partition("=")[0] for feature in recipe.features]
    yield from compare("features", features, rendering["features"])
    for process in _processes(recipe, rendering):
        ours = recipe.pool_argv(process.parts)
        theirs = process.argv
        yield from compare("model", ours[:3], theirs[:3])
        yield from compare("environment", process.our_env, process.their_env)
        yield from compare("arguments", split(tuple(ours[3:]))[0], split(tuple(theirs[3:]))[0])


@dataclass(frozen=True)
class Process:
    """One process of a rendering: our parts and environment beside the site's words and own."""

    parts: CommandParts
    our_env: dict[str, str]
    argv: list[str]
    their_env: dict[str, str]


def _processes(recipe: ResolvedRecipe, rendering: dict[str, Any]) -> Iterator[Process]:
    if "pd" not in rendering:
        for argv in rendering["argv"]:
            yield Process(recipe.parts, dict(recipe.env), argv, rendering["env"])
        return
    for role in rendering["pd"]:
        pool = recipe.pools[role]
        for rank, node in enumerate(rendering["pools"][role]):
            env = _pool_environment(dict(pool.parts.env), role, rank, pool.parallelism)
            yield Process(pool.parts, env, node["argv"], node["env"])


def _pool_environment(env: dict[str, str], role: str, rank: int, mode: str) -> dict[str, str]:
    """Each node of a data-parallel pool binds its own address; of the others the head does."""
    if rank == 0 or mode != "dep":
        return env
    head, own = f"${role.upper()}_NODE_1", f"${role.upper()}_NODE_{rank + 1}"
    return {key: value.replace(head, own) for key, value in env.items()}


def fixed_differences(recipe: ResolvedRecipe, rendering: dict[str, Any]) -> Iterator[Difference]:
    """What a recipe fixes of the parallel flags must stand in the site's command too."""
    for process in _processes(recipe, rendering):
        theirs = split(tuple(process.argv[3:]))[1]
        for flag, value in process.parts.fixed_parallel.items():
            if theirs.get(flag) != value:
                yield Difference(f"fixed {flag}", name(rendering), value, theirs.get(flag))


def layout_differences(recipe: ResolvedRecipe, rendering: dict[str, Any]) -> Iterator[Difference]:
    """The parallel and rank flags of every node, by kind of difference."""
    strategy = rendering["strategy"]
    if strategy not in STRATEGIES:
        yield Difference(f"strategy not yet planned: {strategy}", name(rendering), None, None)
        return
    slots = placeholder_slots(recipe, rendering["nodes"])
    try:
        layout = build_layout(recipe, slots, deployment(rendering), 8000)
    except PlanError as error:
        yield Difference(_refusal(error), name(rendering), str(error), rendering["argv"][0])
        return
    for node, argv in zip(layout.nodes, rendering["argv"], strict=True):
        ours = split(tuple(recipe.argv(node.parallel)[3:]))[1]
        theirs = split(tuple(argv[3:]))[1]
        if rendering["nodes"] > 1:
            ours = {flag: value for flag, value in ours.items() if flag not in OURS_ALONE}
        if ours != theirs:
            yield Difference(_kind(ours, theirs, recipe), name(rendering), ours, theirs)


def _refusal(error: PlanError) -> str:
    if "decode context parallel" in error.what:
        return "refused: the decode context size does not divide the tensor size"
    return f"unknown refusal: {error.what}"


def _kind(ours: dict[str, str], theirs: dict[str, str], recipe: ResolvedRecipe) -> str:
    changed = {flag for flag in ours.keys() | theirs.keys() if ours.get(flag) != theirs.get(flag)}
    fixed_tensor = "--tensor-parallel-size" in recipe.fixed_parallel
    if changed == {"--pipeline-parallel-size"} and fixed_tensor:
        return "the recipe fixes the tensor size: our pipeline takes the GPUs the site leaves idle"
    return f"unknown: {sorted(changed)}"
