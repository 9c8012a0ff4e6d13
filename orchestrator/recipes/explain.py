"""Which layer of a recipe gave each argument and variable, and what it overrode."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.deployment import Deployment
from orchestrator.recipes.arguments import from_mapping
from orchestrator.recipes.layers import Layer, layers
from orchestrator.recipes.layout_flags import constraint_flags
from orchestrator.recipes.resolve import lay_arguments, lay_environment
from orchestrator.recipes.resolved import USER, Argument
from orchestrator.recipes.selection import PoolSelection, Selection


@dataclass(frozen=True, slots=True)
class Given:
    """What one layer gave: the words of an argument, or the value of a variable."""

    text: str
    layer: str


@dataclass(frozen=True, slots=True)
class Origin:
    """One argument or variable: what counts, and what it overrode, the latest first.

    `given` is None for one that was taken out, by the layer in `taken_out_by`. `kind` is
    argument, parallel (a constraint on the topology, not an argument as it stands), layout (an
    argument that the topology gives) or variable.
    """

    kind: str
    name: str
    given: Given | None
    overrode: tuple[Given, ...] = ()
    taken_out_by: str | None = None


def explain(selection: Selection, deployment: Deployment) -> dict[str, list[Origin]]:
    """The origins of everything, by pool under prefill/decode, else under the key ""."""
    if not selection.pools:
        return {"": _origins(selection, deployment, None)}
    return {pool.role: _origins(selection, deployment, pool) for pool in selection.pools}


def _origins(
    selection: Selection, deployment: Deployment, pool: PoolSelection | None
) -> list[Origin]:
    stack = layers(selection, pool)
    laid = lay_arguments(selection, stack, deployment.args, pool)
    constraints = constraint_flags(selection.strategy)
    overrode: dict[str, list[Given]] = {}
    for argument in laid.dropped:
        overrode.setdefault(argument.flag, []).insert(0, _given(argument))
    origins = [
        Origin(
            "parallel" if argument.flag in constraints else "argument",
            argument.flag,
            _given(argument),
            tuple(overrode.pop(argument.flag, ())),
        )
        for argument in laid.kept
    ]
    _, by_user = from_mapping(deployment.args, USER)
    for flag, given in overrode.items():
        users = not by_user.isdisjoint({flag, flag.partition(".")[0]})
        by = USER if users else f"strategy {selection.strategy.name}"
        origins.append(Origin("argument", flag, None, tuple(given), by))
    return origins + _variables(stack, deployment)


def _given(argument: Argument) -> Given:
    return Given(" ".join(argument.tokens), argument.layer)


def _variables(stack: list[Layer], deployment: Deployment) -> list[Origin]:
    final = lay_environment(stack, deployment.env)
    history: dict[str, list[Given]] = {}
    for layer in stack:
        for name, value in layer.env.items():
            history.setdefault(name, []).insert(0, Given(value, layer.name))
    for name in deployment.env:
        history.setdefault(name, [])
    removed_by = {name: layer.name for layer in stack for name in layer.removes}
    origins = []
    for name, given in history.items():
        if name in deployment.env:
            mine = Given(str(deployment.env[name]), "your env")
            origins.append(Origin("variable", name, mine, tuple(given)))
        elif name in final:
            origins.append(Origin("variable", name, given[0], tuple(given[1:])))
        else:
            origins.append(Origin("variable", name, None, tuple(given), removed_by.get(name)))
    return origins
