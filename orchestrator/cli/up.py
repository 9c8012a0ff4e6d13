"""`orc up`: make the plan so, and wait until it is healthy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace as replaced
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from orchestrator.cli.change_options import ChangeOptions
from orchestrator.cli.diff import show_differences
from orchestrator.cli.grouped import grouped
from orchestrator.cli.options import (
    CheckOption,
    JsonOption,
    RecipesOption,
    VerboseOption,
    YesOption,
)
from orchestrator.cli.selection import Selection
from orchestrator.cli.session import Reach, session

if TYPE_CHECKING:
    from orchestrator.deployment import Deployment
    from orchestrator.play.engine import Recap
    from orchestrator.play.request import Request
    from orchestrator.play.run import Run

Pull = Literal["always", "missing", "never"]


@grouped
def up(
    reach: Reach,
    selection: Selection,
    changing: ChangeOptions,
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
    diff: Annotated[
        bool, typer.Option("--diff", "-D", help="First show what differs from what runs.")
    ] = False,
    recipes: RecipesOption = None,
    yes: YesOption = False,  # noqa: ARG001 - up asks nothing yet; scripts give it everywhere
    as_json: JsonOption = False,
    verbose: VerboseOption = 0,
) -> int:
    """Start what the plan says, and wait until it answers.

    Every replica has to answer a completion. What runs already with the same spec is left
    alone. With -v the plan's ranks are compared with those that every worker logs about itself.
    """
    if timeout is not None:
        more = [*(selection.assignments or []), f"health.timeout={timeout}"]
        selection = replaced(selection, assignments=more)
    wanted = selection.read()
    if diff:
        show_differences(reach, wanted, recipes, as_json=as_json)
    return play_packaged(
        "launch",
        reach,
        wanted=wanted,
        recipes=recipes,
        variables={"pull": pull, "replace": replace, "keep_failed": keep_failed},
        check=check,
        verbose=verbose,
        as_json=as_json,
        request=changing.request("launch"),
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
    request: Request | None = None,
) -> int:
    """Run a packaged playbook for a deployment; returns the exit status."""
    from orchestrator.play.actions.registry import ACTIONS
    from orchestrator.play.change import run_change
    from orchestrator.play.playbook import packaged_playbook, read_playbook
    from orchestrator.play.request import Request
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
            request=request or Request(),
        )
        recap = run_change(plays, run)
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
