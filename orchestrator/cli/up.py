"""`orc up`: make the plan so, and wait until it is healthy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from orchestrator.cli import selection
from orchestrator.cli.options import (
    AcceptHostKeysOption,
    CheckOption,
    ForksOption,
    InventoryOption,
    JsonOption,
    LimitOption,
    RecipesOption,
    VaultOption,
    VerboseOption,
    YesOption,
)
from orchestrator.cli.session import Reach, session

if TYPE_CHECKING:
    from orchestrator.deployment import Deployment
    from orchestrator.play.engine import Recap
    from orchestrator.play.run import Run

Pull = Literal["always", "missing", "never"]


def up(
    inventory: InventoryOption,
    deployment: selection.FileOption = None,
    recipe: selection.RecipeOption = None,
    name: selection.NameOption = None,
    variant: selection.VariantOption = None,
    hardware: selection.HardwareOption = None,
    strategy: selection.StrategyOption = None,
    nodes: selection.NodesOption = None,
    replicas: selection.ReplicasOption = None,
    features: selection.FeaturesOption = None,
    image: selection.ImageOption = None,
    port: selection.PortOption = None,
    assignments: selection.SetOption = None,
    pull: Annotated[Pull, typer.Option("--pull", help="When to pull the image.")] = "always",
    timeout: Annotated[
        str | None, typer.Option("--timeout", help="How long a start may take, such as 45m.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Restart what runs another spec under this name.")
    ] = False,
    keep_failed: Annotated[
        bool, typer.Option("--keep-failed", help="Leave the other ranks of a failed start running.")
    ] = False,
    check: CheckOption = False,
    limit: LimitOption = None,
    recipes: RecipesOption = None,
    vault_password_file: VaultOption = None,
    forks: ForksOption = 32,
    accept_new_host_keys: AcceptHostKeysOption = False,
    yes: YesOption = False,  # noqa: ARG001 - up asks nothing yet; scripts give it everywhere
    as_json: JsonOption = False,
    verbose: VerboseOption = 0,
) -> int:
    """Start what the plan says, and wait until every replica answers a completion.

    What runs already with the same spec is left alone. With -v the plan's ranks are compared
    with those that every worker logs about itself.
    """
    if timeout is not None:
        assignments = [*(assignments or []), f"health.timeout={timeout}"]
    flags = selection.selection_flags(
        recipe=recipe,
        name=name,
        variant=variant,
        hardware=hardware,
        strategy=strategy,
        nodes=nodes,
        replicas=replicas,
        features=features,
        image=image,
        port=port,
    )
    wanted = selection.read_deployment(deployment, flags, assignments)
    reach = Reach(inventory, limit, vault_password_file, forks, accept_new_host_keys)
    return play_packaged(
        "launch",
        reach,
        wanted=wanted,
        recipes=recipes,
        variables={"pull": pull, "replace": replace, "keep_failed": keep_failed},
        check=check,
        verbose=verbose,
        as_json=as_json,
    )


def play_packaged(
    playbook: str,
    reach: Reach,
    *,
    wanted: Deployment | None,
    recipes: list[Path] | None,
    variables: Mapping[str, Any],
    check: bool,
    as_json: bool,
    verbose: int = 0,
) -> int:
    """Run a packaged playbook for a deployment; returns the exit status."""
    from orchestrator.play.actions.registry import ACTIONS
    from orchestrator.play.engine import run_plays
    from orchestrator.play.playbook import packaged_playbook, read_playbook
    from orchestrator.play.run import Run
    from orchestrator.recipes.catalog import Catalog

    plays = read_playbook(packaged_playbook(playbook), ACTIONS)
    catalog = Catalog.load(recipes) if wanted is not None else None
    with session(reach, as_json=as_json) as opened:
        run = Run(
            inventory=opened.inventory,
            pool=opened.pool,
            emit=opened.emit,
            catalog=catalog,
            deployment=wanted,
            check=check,
            verbose=verbose,
            variables=variables,
        )
        recap = run_plays(plays, run)
        say_result(run, recap)
        return int(recap.exit_status)


def say_result(run: Run, recap: Recap) -> None:
    """The last event: what came of it, as one or two lines and as data."""
    from orchestrator.errors import ExitStatus
    from orchestrator.planning.address import url

    status = recap.exit_status
    data: dict[str, Any] = {"exit_status": int(status), "deployment": run.name}
    if run.plan is not None:
        data["endpoints"] = [endpoint.to_dict() for endpoint in run.plan.endpoints]
        router = run.plan.router
        data["router"] = url(router.address, router.port) if router else None
    data["started_replicas"] = sorted(run.started)
    if status != ExitStatus.OK:
        name = f" {run.name}" if run.name else ""
        text = f"failed; see orc status{name} and orc logs{name}" if run.started else "failed"
        text = "hosts unreachable" if status == ExitStatus.UNREACHABLE else text
    elif run.plan is None or run.decision is None:
        text = "the hosts are fine"
    elif run.check:
        text = "nothing was done (--check)"
    elif not run.endpoints:
        text = "the hosts are fine for this plan"
    else:
        urls = ", ".join(endpoint.url for endpoint in run.plan.endpoints)
        if run.plan.router is not None:
            urls += f"; behind the router {url(run.plan.router.address, run.plan.router.port)}"
        word = "is healthy" if run.started else "is unchanged and healthy"
        text = f"{run.name} {word}: {urls}"
    run.say("done", text, data=data)
