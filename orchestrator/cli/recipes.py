"""`orc recipes`: list, show, validate and add recipes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli.completion import hardware_names, recipe_names, strategy_names
from orchestrator.cli.options import JsonOption, RecipesOption, VerboseOption
from orchestrator.errors import ExitStatus, InputError, PlanError, name_hint

if TYPE_CHECKING:
    from orchestrator.deployment import Deployment
    from orchestrator.recipes.catalog import Catalog
    from orchestrator.recipes.resolved import ResolvedRecipe

recipes_app = typer.Typer(
    help="List, show, validate and add recipes.", no_args_is_help=True, rich_markup_mode=None
)


def register(app: typer.Typer) -> None:
    app.add_typer(recipes_app, name="recipes")


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")


def _print_json(data: Any) -> None:
    _print(json.dumps(data, indent=2, default=str))


@recipes_app.command("list")
def list_command(
    pattern: Annotated[
        str, typer.Argument(metavar="TEXT", help="Only those with this in their name.")
    ] = "",
    hardware: Annotated[
        str | None,
        typer.Option(
            "--hardware",
            help="Only those that run on this hardware.",
            autocompletion=hardware_names,
        ),
    ] = None,
    fits: Annotated[
        str | None,
        typer.Option("--fits", metavar="NxHARDWARE", help="Only what fits so many hosts: 2xh200."),
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            "--strategy",
            "-s",
            help="Only those that allow this strategy.",
            autocompletion=strategy_names,
        ),
    ] = None,
    task: Annotated[
        str | None, typer.Option("--task", help="text, multimodal, omni or embedding.")
    ] = None,
    memory: Annotated[
        float | None, typer.Option("--memory", help="Only variants that need at most so many GB.")
    ] = None,
    recipes: RecipesOption = None,
    as_json: JsonOption = False,
    verbose: VerboseOption = 0,  # noqa: ARG001 - read in cli.main
) -> None:
    """List the recipes, all or those that match."""
    from orchestrator.recipes.directories import catalog_directories
    from orchestrator.recipes.index import load_index, parse_fits, select_entries

    nodes = None
    if fits:
        nodes, named = parse_fits(fits)
        if hardware not in (None, named):
            raise InputError(f"--fits says {named}, and --hardware says {hardware}")
        hardware = named
    directories = catalog_directories(recipes)
    if strategy is not None or task is not None:
        from orchestrator.recipes.catalog import Catalog  # not needed where the index is enough

        catalog = Catalog(directories)
        _check_known("strategy", strategy, catalog.strategies)
        _check_known("task", task, [one.id for one in catalog.taxonomy.tasks])
    index = load_index(directories)
    for fault in index.faults:
        sys.stderr.write(f"not listed: {fault}\n")
    found = select_entries(
        index,
        hardware=hardware,
        nodes=nodes,
        strategy=strategy,
        task=task,
        memory=memory,
        pattern=pattern,
    )
    if as_json:
        _print_json(found)
    elif found:
        from orchestrator.cli.recipe_list import list_text

        _print(list_text(found))
    else:
        sys.stderr.write("no recipe matches\n")


def _check_known(kind: str, name: str | None, known: Iterable[str]) -> None:
    if name is not None and name not in known:
        raise InputError(f"there is no {kind} {name!r}", hint=name_hint(name, known))


@recipes_app.command("show")
def show_command(
    recipe: Annotated[
        str,
        typer.Argument(help="org/name, or a file: .yaml, .json, .md", autocompletion=recipe_names),
    ],
    variant: Annotated[str | None, typer.Option("--variant", help="Variant.")] = None,
    hardware: Annotated[
        str | None,
        typer.Option("--hardware", help="Hardware profile.", autocompletion=hardware_names),
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option("--strategy", "-s", help="Strategy.", autocompletion=strategy_names),
    ] = None,
    nodes: Annotated[int | None, typer.Option("--nodes", "-n", help="Nodes per replica.")] = None,
    feature: Annotated[
        list[str] | None,
        typer.Option("--feature", help="Exactly these; or +name, -name; name=mode. Repeatable."),
    ] = None,
    features: Annotated[
        str | None, typer.Option("--features", help="The same, comma-separated.")
    ] = None,
    kv_offload: Annotated[str | None, typer.Option("--kv-offload", help="KV offload.")] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any field: args.max-model-len=131072."),
    ] = None,
    explained: Annotated[
        bool, typer.Option("--explain", help="Say which layer gave each argument and variable.")
    ] = False,
    recipes: RecipesOption = None,
    as_json: JsonOption = False,
    verbose: VerboseOption = 0,  # noqa: ARG001 - read in cli.main
) -> None:
    """Show a recipe, and the commands that a selection of it comes to."""
    from orchestrator.cli.selection import read_deployment
    from orchestrator.recipes.catalog import Catalog

    wanted = [*(feature or []), *(features or "").split(",")]
    flags = {
        "recipe": recipe,
        "variant": variant,
        "hardware": hardware,
        "strategy": strategy,
        "nodes": nodes,
        "features": [name for name in wanted if name] if feature or features else None,
        "kv_offload": kv_offload,
    }
    deployment = read_deployment(None, flags, assignments)
    catalog = Catalog.load(recipes)
    if explained:
        _explain(catalog, deployment, as_json)
    else:
        _show(catalog, deployment, as_json)


def _hardware(catalog: Catalog, deployment: Deployment) -> str:
    """The hardware asked for, else the one that the recipe recommends."""
    from orchestrator.recipes.recommend import default_variant, recommended_hardware

    if deployment.hardware:
        return deployment.hardware
    recipe = catalog.recipe(deployment.recipe).recipe
    name = deployment.variant
    if "variant" not in deployment.model_fields_set:
        h200 = catalog.hardware("h200")
        name = default_variant(recipe, h200)
    if name not in recipe.variants:
        return "h200"  # the resolution says what is wrong with the variant
    found = recommended_hardware(recipe, recipe.variants[name], catalog.profiles)
    if found is None:
        raise InputError(f"no known hardware runs variant {name!r}", hint="name one: --hardware")
    return found


def _resolved(
    catalog: Catalog, deployment: Deployment, hardware: str
) -> tuple[ResolvedRecipe, int]:
    """The recipe resolved, and how many hosts it is shown on."""
    from orchestrator.cli.recipe_commands import node_count
    from orchestrator.recipes.recommend import minimum_nodes

    resolved = catalog.resolve(deployment, hardware, nodes=deployment.nodes)
    recipe = catalog.recipe(deployment.recipe).recipe
    fewest = minimum_nodes(recipe, resolved.variant, resolved.hardware)
    return resolved, node_count(resolved, deployment, fewest)


def _explain(catalog: Catalog, deployment: Deployment, as_json: bool) -> None:
    from orchestrator.cli.recipe_commands import placeholder_layout
    from orchestrator.cli.recipe_layout import with_layout
    from orchestrator.cli.recipe_text import explain_text
    from orchestrator.recipes.explain import explain

    hardware = _hardware(catalog, deployment)
    origins = explain(catalog.select(deployment, hardware, nodes=deployment.nodes), deployment)
    resolved, nodes = _resolved(catalog, deployment, hardware)
    try:
        layout = placeholder_layout(resolved, deployment, nodes)
    except PlanError as error:  # all the more is it of use to know who said what
        sys.stderr.write(f"without the arguments of the layout: {error}\n")
        layout = None
    if layout is not None:
        origins = with_layout(origins, resolved, layout)
    if as_json:
        _print_json({pool: [asdict(origin) for origin in found] for pool, found in origins.items()})
    else:
        _print(explain_text(origins))


def _show(catalog: Catalog, deployment: Deployment, as_json: bool) -> None:
    from orchestrator.cli.recipe_commands import node_commands
    from orchestrator.cli.recipe_text import recipe_text
    from orchestrator.recipes.docker_form import docker_argv

    resolved, nodes = _resolved(catalog, deployment, _hardware(catalog, deployment))
    found = catalog.recipe(deployment.recipe)
    commands = node_commands(resolved, deployment, nodes)
    if not as_json:
        _print(recipe_text(found, resolved, commands))
        return
    _print_json(
        {
            "recipe": found.name,
            "model": resolved.model,
            "variant": resolved.variant,
            "hardware": resolved.hardware.name,
            "strategy": resolved.strategy.name,
            "features": resolved.features,
            "image": resolved.image,
            "fixed_parallel": dict(resolved.fixed_parallel),
            "shape": asdict(resolved.shape),
            "min_vllm_version": resolved.min_vllm_version,
            "vram_minimum_gb": resolved.vram_minimum_gb,
            "notes": resolved.notes,
            "commands": [
                {
                    **asdict(command),
                    "docker_argv": docker_argv(resolved, command.argv, command.env, command.port),
                }
                for command in commands
            ],
        }
    )


@recipes_app.command("validate")
def validate_command(
    paths: Annotated[
        list[Path], typer.Argument(help="Recipe files, or directories of them.", readable=False)
    ],
    recipes: RecipesOption = None,
    as_json: JsonOption = False,
    verbose: VerboseOption = 0,  # noqa: ARG001 - read in cli.main
) -> int:
    """Check recipes: every fault with file, line and path."""
    from orchestrator.recipes.catalog import Catalog
    from orchestrator.recipes.validate import validate_path

    count, found = 0, []
    for path in paths:
        around = [*(recipes or []), *([path] if _is_catalog(path) else [])]
        checked, faults = validate_path(path, Catalog.load(around))
        count += checked
        found += faults
    if as_json:
        _print_json({"files": count, "faults": [str(fault) for fault in found]})
    else:
        for fault in found:
            sys.stderr.write(f"{fault}\n")
        files = f"{count} file{'s' * (count != 1)}"
        _print(f"{files} checked, {len(found) or 'no'} fault{'s' * (len(found) != 1)}")
    return int(ExitStatus.INVALID if found else ExitStatus.OK)


def _is_catalog(path: Path) -> bool:
    return any((path / part).exists() for part in ("models", "strategies", "taxonomy.yaml"))


@recipes_app.command("add")
def add_command(
    file: Annotated[
        Path, typer.Argument(help="A recipe: .yaml, the site's .json or .md", readable=False)
    ],
    name: Annotated[
        str | None, typer.Option("--name", metavar="ORG/NAME", help="What to call it.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Overwrite a recipe of this name.")
    ] = False,
    recipes: RecipesOption = None,
    as_json: JsonOption = False,
    verbose: VerboseOption = 0,  # noqa: ARG001 - read in cli.main
) -> None:
    """Copy a recipe into your own catalog, once it is valid.

    That is the first directory of --recipes.
    """
    from orchestrator.recipes.add import add_recipe

    if not recipes:
        raise InputError(
            "there is no catalog of your own to add to",
            hint="name its directory: --recipes DIR, or ORC_RECIPES=DIR"
            f" (several are separated by {os.pathsep!r})",
        )
    added, target = add_recipe(file, recipes[0], recipes[1:], name=name, replace=replace)
    if as_json:
        _print_json({"recipe": added, "file": str(target)})
    else:
        _print(f"added {added} as {target}")
