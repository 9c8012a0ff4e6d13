"""From a checked selection to arguments, environment and image: the layers laid together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from orchestrator.deployment import ArgumentValue, Deployment
from orchestrator.recipes.argument_rules import check_arguments
from orchestrator.recipes.arguments import (
    deduplicate,
    fold_dotted,
    from_mapping,
    parse,
    value_of,
    without,
)
from orchestrator.recipes.image import device_flags, image
from orchestrator.recipes.kv_transfer import check_kv_offload, check_kv_transfer
from orchestrator.recipes.layers import KV_OFFLOAD, PARALLEL, Layer, layers
from orchestrator.recipes.layout_flags import constraint_flags, layout_flags
from orchestrator.recipes.recommend import minimum_gpus, recommended_tensor_size, variant_memory
from orchestrator.recipes.resolved import (
    USER,
    Argument,
    CommandParts,
    CompanionProcess,
    ModelShape,
    ResolvedPool,
    ResolvedRecipe,
    Strategy,
)
from orchestrator.recipes.selection import PoolSelection, Selection
from orchestrator.recipes.shape import local_shape, overlay
from orchestrator.recipes.vllm_versions import unknown_flags, version_notes
from orchestrator.secret import Secret

_MULTIMODAL = "multimodal"  # of the tasks: the model takes more than text
_THOUSANDS = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}


def resolve(selection: Selection, deployment: Deployment) -> ResolvedRecipe:
    """Everything that the layers and the user's own settings come to. Raises InputError."""
    recipe, variant, strategy = selection.recipe, selection.variant, selection.strategy
    model = _model(selection)
    pools = {
        pool.role: ResolvedPool(
            role=pool.role,
            nodes=pool.nodes,
            parallelism=pool.parallelism,
            tensor=pool.tensor,
            parts=_parts(selection, deployment, pool),
        )
        for pool in selection.pools
    }
    parts = CommandParts() if pools else _parts(selection, deployment)
    chosen_image = deployment.image or image(recipe, variant, selection.hardware)
    everything = [parts, *(pool.parts for pool in pools.values())]
    notes = [note for part in everything for note in version_notes(chosen_image, part.arguments)]
    if recipe.omni is None:  # vLLM-Omni has flags of its own
        yours = [one for part in everything for one in part.arguments if one.layer == USER]
        notes += unknown_flags(yours)
    companions = tuple(_companions(selection))
    notes += map(_companion_note, companions)
    return ResolvedRecipe(
        recipe=selection.name,
        model=model,
        variant=selection.variant_name,
        hardware=selection.hardware,
        strategy=Strategy(
            name=strategy.name,
            deploy_type=strategy.deploy_type,
            display_name=strategy.display_name,
            parallelism=strategy.parallelism,
            parallel_flag=strategy.parallel_flag,
        ),
        features=tuple(str(feature) for feature in selection.features),
        image=chosen_image,
        arguments=parts.arguments,
        parallel_position=parts.parallel_position,
        fixed_parallel=parts.fixed_parallel,
        env=parts.env,
        docker_flags=device_flags(selection.hardware),
        shape=_shape(selection, model),
        mixture_of_experts=recipe.model.architecture == "moe",
        min_vllm_version=variant.min_vllm_version or recipe.model.min_vllm_version,
        vram_minimum_gb=variant_memory(variant, selection.hardware),
        notes=(*selection.notes, *dict.fromkeys(notes)),
        fitted_tensor=recommended_tensor_size(recipe, variant, strategy.name, selection.hardware),
        minimum_gpus=minimum_gpus(recipe, strategy.name, selection.hardware),
        precision=variant.precision,
        parameters=_count(recipe.model.parameter_count),
        fewest_parameters=fewest(recipe.model.parameter_count),
        active_parameters=_count(recipe.model.active_parameters),
        context_length=recipe.model.context_length or None,
        pools=pools,
        kv_offload=selection.kv_offload,
        kv_store=selection.kv_store,
        companions=companions,
        router=(selection.kv_store.router if selection.kv_store else None) or strategy.router,
    )


def _model(selection: Selection) -> str:
    """The checkpoint: of the omni task that is served, the variant's, or the recipe's."""
    tasks = selection.recipe.omni.tasks if selection.recipe.omni else ()
    task = tasks[0].model_id if tasks else None
    return task or selection.variant.model_id or selection.recipe.model.model_id


def _parts(
    selection: Selection, deployment: Deployment, pool: PoolSelection | None = None
) -> CommandParts:
    stack = layers(selection, pool)
    laid = lay_arguments(selection, stack, deployment.args, pool)
    constraints = constraint_flags(selection.strategy)
    fixed = {item.flag: value_of(item) for item in laid.kept if item.flag in constraints}
    check_arguments(laid.kept, constraints, deployment)
    offload = [layer for layer in stack if layer.name.startswith(KV_OFFLOAD)]
    brought = [one for layer in offload for one in parse(layer.arguments, layer.name)]
    check_kv_offload(laid.kept, brought, selection.kv_offload)
    if pool is not None:
        check_kv_transfer(laid.kept, pool.role)
    arguments = [item for item in laid.kept if item.flag not in constraints]
    position = sum(1 for item in arguments if item.layer in laid.before)
    env = {name: value for name, (value, _) in lay_environment(stack, deployment.env).items()}
    return CommandParts(tuple(arguments), position, fixed, env)


@dataclass(frozen=True, slots=True)
class LaidArguments:
    """The arguments that stay, those that a later one overrode or took out, and the layers
    before the parallel flags."""

    kept: list[Argument]
    dropped: list[Argument]
    before: frozenset[str]


def lay_arguments(
    selection: Selection,
    stack: Iterable[Layer],
    user: Mapping[str, ArgumentValue],
    pool: PoolSelection | None = None,
) -> LaidArguments:
    """The layers' arguments with the last of each flag, and the user's at the very end."""
    given: list[Argument] = []
    removed: list[Argument] = []
    before: frozenset[str] = frozenset()
    for layer in stack:
        if layer.name == PARALLEL:
            before = frozenset(item.layer for item in given)
            given, removed = without(given, layout_flags(selection.strategy, pool))
        given += parse(layer.arguments, layer.name)
    given, unwanted = without(given, selection.strategy.remove_args)
    mine, replaced = from_mapping(user, USER)
    given, overridden = without(given, replaced)
    kept, dropped = deduplicate([*given, *mine])
    return LaidArguments(fold_dotted(kept), [*removed, *unwanted, *overridden, *dropped], before)


def lay_environment(
    stack: Iterable[Layer], user: Mapping[str, str | Secret]
) -> dict[str, tuple[str, str]]:
    """The variables, each with its value and the layer that gave it.

    A secret of the user's takes its variable out: the plan adds the value itself.
    """
    env: dict[str, tuple[str, str]] = {}
    for layer in stack:
        for name, value in layer.env.items():
            env[name] = (value, layer.name)
        for name in layer.removes:
            env.pop(name, None)
    for name, given in user.items():
        env.pop(name, None)
        if not isinstance(given, Secret):
            env[name] = (given, "your env")
    return env


def _shape(selection: Selection, model: str) -> ModelShape:
    """The variant's own shape, the model's, and what its tasks and a local config.json add."""
    shape = ModelShape()
    for declared in (selection.variant.shape, selection.recipe.model.shape):
        if declared:
            shape = overlay(shape, ModelShape(**declared.model_dump()))
    if _MULTIMODAL in selection.recipe.meta.tasks:
        shape = overlay(shape, ModelShape(multimodal=True))
    return overlay(shape, local_shape(model))


def _count(text: str | None) -> float | None:
    """`671B` or `1T` as a number; None for anything else, such as `Undisclosed`."""
    found = re.fullmatch(r"~?(\d+(?:\.\d+)?)([KMBT])", (text or "").strip())
    return float(found[1]) * _THOUSANDS[found[2]] if found else None


def _companions(selection: Selection) -> list[CompanionProcess]:
    found = [
        (chosen.name, selection.recipe.features[chosen.name].companion)
        for chosen in selection.features
    ]
    if selection.kv_option:
        found.append((selection.kv_offload or "", selection.kv_option.companion))
    return [
        CompanionProcess(companion.label or name, companion.description, companion.command.rstrip())
        for name, companion in found
        if companion and selection.kv_store is None
    ]


def _companion_note(companion: CompanionProcess) -> str:
    command = " ".join(companion.command.replace("\\\n", " ").split())
    return (
        f"{companion.label} has to run on every host of an engine before it, and orc does not "
        f"start it: {command}"
    )


def fewest(text: str | None) -> float | None:
    """The least number that is rounded to `text`: half of its last digit's worth below it."""
    found = re.fullmatch(r"(\d+)(?:\.(\d+))?([KMBT])", (text or "").strip())
    if not found:
        return None
    half: float = 0.5 / 10.0 ** len(found[2] or "")
    return (float(f"{found[1]}.{found[2] or 0}") - half) * _THOUSANDS[found[3]]
