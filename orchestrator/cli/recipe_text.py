"""A recipe as text: what it offers, its commands, and where each argument came from."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence

from orchestrator.cli.recipe_commands import NodeCommand
from orchestrator.cli.recipe_list import columns
from orchestrator.recipes.docker_form import docker_argv, shell_text
from orchestrator.recipes.explain import Origin
from orchestrator.recipes.recipe_file import RecipeFile
from orchestrator.recipes.resolved import ResolvedRecipe
from orchestrator.recipes.schema import Variant


def recipe_text(
    found: RecipeFile, resolved: ResolvedRecipe, commands: Iterable[NodeCommand]
) -> str:
    """A recipe: what it is, what there is to choose, and the commands of the selection."""
    recipe, meta = found.recipe, found.recipe.meta
    variants = (
        f"{name} ({', '.join(_variant_facts(variant))})"
        for name, variant in recipe.variants.items()
    )
    hardware = (f"{name} {how}" for name, how in meta.hardware.items())
    facts = [
        ("variants", ", ".join(variants)),
        ("strategies", ", ".join(recipe.compatible_strategies)),
        ("features", ", ".join(recipe.features) or "none"),
        ("hardware", ", ".join(hardware) or "any"),
        ("needs vLLM", f">= {resolved.min_vllm_version}" if resolved.min_vllm_version else "any"),
    ]
    selection = (
        f"On {resolved.hardware.name}: strategy {resolved.strategy.name}, "
        f"variant {resolved.variant}, features {', '.join(resolved.features) or 'none'}"
    )
    parts = [
        f"{found.name}: {meta.title}" + (f" by {meta.provider}" if meta.provider else ""),
        meta.description,
        columns([[name, value] for name, value in facts]),
        selection + f"\nimage {resolved.image}",
        *(_command_text(resolved, command) for command in commands),
    ]
    parts += [f"note: {note}" for note in resolved.notes]
    if recipe.guide.strip():
        parts.append(recipe.guide.strip())
    return "\n\n".join(part for part in parts if part)


def _variant_facts(variant: Variant) -> list[str]:
    memory = f"{variant.vram_minimum_gb:g} GB" if variant.vram_minimum_gb else None
    return [fact for fact in (variant.precision, memory) if fact]


def _command_text(resolved: ResolvedRecipe, command: NodeCommand) -> str:
    heading = f"# {command.label}\n" if command.label else ""
    if not command.complete:
        heading += "# without the flags of the layout, which `orc plan` adds for the hosts\n"
    shown = heading + shell_text(command.argv, command.env)
    if command.complete and resolved.strategy.deploy_type == "single_node":
        words = docker_argv(resolved, command.argv, command.env, command.port)
        shown += "\n\n# without orc, as the recipe site gives it; `orc plan` shows what orc runs\n"
        shown += " ".join(word if word.startswith("~") else shlex.quote(word) for word in words)
    return shown


def explain_text(origins: Mapping[str, Sequence[Origin]]) -> str:
    """Every argument and variable with its layer, and under it what it overrode."""
    blocks = []
    for pool, found in origins.items():
        rows = []
        for origin in found:
            given = origin.given
            shown = given.text if given else f"{origin.name} (taken out)"
            if origin.kind == "variable" and given:
                shown = f"{origin.name}={given.text}"
            layer = given.layer if given else origin.taken_out_by or "-"
            rows.append([shown, layer + (" (for the layout)" if origin.kind == "parallel" else "")])
            rows += [[f"    over {lost.text}", lost.layer] for lost in origin.overrode]
        blocks.append((f"{pool}:\n" if pool else "") + columns(rows))
    return "\n\n".join(blocks)
