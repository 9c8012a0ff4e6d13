"""The public site's renderings, compared with what our layers come to."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any

from orchestrator.cli.recipe_commands import placeholder_slots
from orchestrator.deployment import Deployment
from orchestrator.errors import PlanError
from orchestrator.recipes.arguments import parse, value_of
from orchestrator.recipes.catalog import Catalog
from orchestrator.recipes.flags import PARALLEL_FLAGS
from orchestrator.recipes.resolved import CommandParts, ResolvedRecipe
from orchestrator.topology.build import build_layout

# Ours says these wherever nodes are joined; the site leaves them to vLLM's defaults, or to the
# shell's.
OURS_ALONE = {"--master-port", "--distributed-executor-backend", "--data-parallel-rpc-port"}


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
    nodes: int  # of its group


def _processes(recipe: ResolvedRecipe, rendering: dict[str, Any]) -> Iterator[Process]:
    if "pd" not in rendering:
        for argv in rendering["argv"]:
            nodes = rendering["nodes"]
            yield Process(recipe.parts, dict(recipe.env), argv, rendering["env"], nodes)
        return
    for role in rendering["pd"]:
        pool = recipe.pools[role]
        for rank, node in enumerate(rendering["pools"][role]):
            env = _pool_environment(dict(pool.parts.env), role, rank, pool.parallelism)
            nodes = rendering["pd"][role]
            yield Process(pool.parts, env, node["argv"], node["env"], nodes)


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
    """The parallel and rank flags of every process, by kind of difference."""
    slots = placeholder_slots(recipe, rendering["nodes"])
    try:
        layout = build_layout(recipe, slots, deployment(rendering))
    except PlanError as error:
        yield Difference(_refusal(error), name(rendering), str(error), None)
        return
    if len(layout.nodes) != len(slots):
        shown = f"{len(layout.nodes)} processes"
        yield Difference(f"unknown: {shown}", name(rendering), shown, len(slots))
        return
    processes = _processes(recipe, rendering)
    for node, process in zip(layout.nodes, processes, strict=True):
        ours = _compared(recipe.pool_argv(process.parts, node.parallel))
        theirs = _compared(process.argv)
        if ours != theirs:
            room = process.nodes * recipe.hardware.gpu_count
            kind = _kind(ours, theirs, process, room)
            yield Difference(kind, name(rendering), ours, theirs)


def _compared(argv: list[str]) -> dict[str, str]:
    flags = split(tuple(argv[3:]))[1]
    return {flag: value for flag, value in flags.items() if flag not in OURS_ALONE}


def _refusal(error: PlanError) -> str:
    if "decode context parallel" in error.what:
        return "refused: the decode context size does not divide the tensor size"
    if "but the hosts have room for" in error.what or "over" in error.what:
        return "refused: the recipe's fixed sizes do not fit so many hosts"
    return f"unknown refusal: {error.what}"


SIZES = ("--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size")
RENDEZVOUS = {
    "--data-parallel-address",
    "--data-parallel-size-local",
    "--data-parallel-start-rank",
    "--data-parallel-hybrid-lb",
}
WHOLE_LAYOUT = {*SIZES, *RENDEZVOUS, "--nnodes", "--node-rank", "--master-addr", "--headless"}


def _kind(ours: dict[str, str], theirs: dict[str, str], process: Process, room: int) -> str:
    """The reasons that together explain every flag that differs; `room` is the group's GPUs."""
    left = {flag for flag in ours.keys() | theirs.keys() if ours.get(flag) != theirs.get(flag)}
    reasons = []

    def explain(reason: str, flags: set[str]) -> None:
        if left & flags:
            reasons.append(reason)
            left.difference_update(flags)

    if _gpus(theirs) > room:
        explain("the site's sizes need more GPUs than there are", WHOLE_LAYOUT)
    if {ours.get(SIZES[0]), theirs.get(SIZES[0])} == {None, "1"}:
        explain("a tensor size of 1 is vLLM's own default", {SIZES[0]})
    if process.nodes == 1:
        explain("a pool on one node has nobody to meet", left & RENDEZVOUS - ours.keys())
    if ours.get("--data-parallel-start-rank") == "0":
        explain("the head's start rank of 0 is said", {"--data-parallel-start-rank"})
    if "--headless" in ours and "--data-parallel-start-rank" in ours:
        explain("a worker behind an internal load balancer is headless", {"--headless"})
    if left:
        values = [(flag, ours.get(flag), theirs.get(flag)) for flag in sorted(left)]
        return f"unknown: {values}"
    return "; ".join(sorted(reasons))


def _gpus(flags: dict[str, str]) -> int:
    """The GPUs that a command's sizes ask for."""
    return prod(int(flags.get(flag, 1)) for flag in SIZES)
