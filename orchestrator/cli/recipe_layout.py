"""What the layout gives, among the origins of a recipe's arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from orchestrator.recipes.arguments import parse
from orchestrator.recipes.explain import Given, Origin
from orchestrator.recipes.resolved import ResolvedRecipe
from orchestrator.topology.alternatives import sizes_in_words
from orchestrator.topology.layout import Layout, Node


def with_layout(
    origins: Mapping[str, Sequence[Origin]], recipe: ResolvedRecipe, layout: Layout
) -> dict[str, list[Origin]]:
    """The origins with every argument that `layout` adds, at its place in the command.

    What a layer said for the layout stays where it came to pass, else it is overridden.
    """
    return {pool: _of_pool(pool, found, recipe, layout) for pool, found in origins.items()}


def _of_pool(
    pool: str, found: Sequence[Origin], recipe: ResolvedRecipe, layout: Layout
) -> list[Origin]:
    nodes = [node for node in layout.nodes if not pool or node.role == pool]
    wishes = {origin.name: origin for origin in found if origin.kind == "parallel"}
    made = [
        _with_wish(one, wishes.get(one.name)) for one in _given(nodes, _title(pool, recipe, layout))
    ]
    named = {origin.name for origin in made}
    unheeded = [
        replace(wish, given=None, overrode=(wish.given, *wish.overrode), taken_out_by="layout")
        for name, wish in wishes.items()
        if name not in named and wish.given is not None
    ]
    others = [origin for origin in found if origin.kind != "parallel"]
    parts = recipe.pools[pool].parts if pool else recipe.parts
    first = min(parts.parallel_position, len(others))
    return [*others[:first], *made, *others[first:], *unheeded]


def _title(pool: str, recipe: ResolvedRecipe, layout: Layout) -> str:
    sizes = layout.sizes.get(pool) or next(iter(layout.sizes.values()))
    return f"layout: {sizes_in_words(sizes)} on {recipe.hardware.name}"


def _given(nodes: Iterable[Node], title: str) -> list[Origin]:
    """What the nodes have, once for all that have it alike."""
    nodes = list(nodes)
    having: dict[tuple[str, str], list[int]] = {}
    for node in nodes:
        for argument in parse(node.parallel, "layout"):
            key = (argument.flag, " ".join(argument.tokens))
            having.setdefault(key, []).append(node.rank)
    origins = []
    for (flag, text), ranks in having.items():
        some = len(ranks) < len(nodes)
        which = f", node{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}" if some else ""
        origins.append(Origin("layout", flag, Given(text, title + which)))
    return origins


def _with_wish(made: Origin, wish: Origin | None) -> Origin:
    if wish is None or wish.given is None or made.given is None:
        return made
    if made.given.text.split() == wish.given.text.replace("=", " ").split():
        return wish
    return replace(made, overrode=(wish.given, *wish.overrode))
