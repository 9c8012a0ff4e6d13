"""Which layer of a recipe gave each argument and variable, and what it overrode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.deployment import Deployment
from orchestrator.recipes.arguments import PARALLEL_FLAGS
from orchestrator.recipes.layers import Layer, layers
from orchestrator.recipes.resolve import lay_arguments, lay_environment
from orchestrator.recipes.resolved import Argument
from orchestrator.recipes.selection import Selection


@dataclass(frozen=True, slots=True)
class Given:
    """What one layer gave: the words of an argument, or the value of a variable."""

    text: str
    layer: str


@dataclass(frozen=True, slots=True)
class Origin:
    """One argument or variable: what counts, and what it overrode, the latest first.

    `given` is None for one that was taken out. `kind` is argument, parallel (a constraint on
    the topology, not an argument as it stands) or variable.
    """

    kind: str
    name: str
    given: Given | None
    overrode: tuple[Given, ...] = ()


def explain(selection: Selection, deployment: Deployment) -> dict[str, list[Origin]]:
    """The origins of everything, by pool under prefill/decode, else under the key ""."""
    pools: Sequence[object] = selection.pools
    if not pools:
        return {"": _origins(selection, layers(selection), deployment)}
    return {
        pool.role: _origins(selection, layers(selection, pool), deployment)
        for pool in selection.pools
    }


def _origins(selection: Selection, stack: list[Layer], deployment: Deployment) -> list[Origin]:
    kept, dropped, _ = lay_arguments(
        stack, deployment.args, frozenset(selection.strategy.remove_args)
    )
    overrode: dict[str, list[Given]] = {}
    for argument in dropped:
        overrode.setdefault(argument.flag, []).insert(0, _given(argument))
    origins = [
        Origin(
            "parallel" if argument.flag in PARALLEL_FLAGS else "argument",
            argument.flag,
            _given(argument),
            tuple(overrode.pop(argument.flag, ())),
        )
        for argument in kept
    ]
    origins += [Origin("argument", flag, None, tuple(given)) for flag, given in overrode.items()]
    return origins + _variables(stack, deployment)


def _given(argument: Argument) -> Given:
    return Given(" ".join(argument.tokens), argument.layer)


def _variables(stack: list[Layer], deployment: Deployment) -> list[Origin]:
    final = lay_environment(stack, deployment.env)
    history: dict[str, list[Given]] = {}
    for layer in stack:
        for name, value in layer.env.items():
            history.setdefault(name, []).insert(0, Given(value, layer.name))
    for name in final:
        history.setdefault(name, [])
    for name in deployment.env:
        history.setdefault(name, [])
    return [_variable(name, final, given, deployment) for name, given in history.items()]


def _variable(
    name: str,
    final: Mapping[str, tuple[str, str]],
    history: list[Given],
    deployment: Deployment,
) -> Origin:
    if name in deployment.env:
        return Origin(
            "variable", name, Given(str(deployment.env[name]), "your env"), tuple(history)
        )
    if name in final:
        return Origin("variable", name, history[0], tuple(history[1:]))
    return Origin("variable", name, None, tuple(history))
