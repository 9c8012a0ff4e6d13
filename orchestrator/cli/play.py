"""`orc play`: run a playbook of the user's own."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli.change_options import ChangeOptions
from orchestrator.cli.extra_vars import extra_variables
from orchestrator.cli.grouped import grouped
from orchestrator.cli.options import (
    CheckOption,
    JsonOption,
    RecipesOption,
    VerboseOption,
    YesOption,
)
from orchestrator.cli.session import Reach, read_inventory, session
from orchestrator.errors import ExitStatus, UsageError

if TYPE_CHECKING:
    from orchestrator.inventory.load import Inventory
    from orchestrator.play.choice import Choice
    from orchestrator.play.engine import Recap
    from orchestrator.play.tasks import Play, Task

TagsOption = Annotated[
    list[str] | None, typer.Option("--tags", "-t", help="Only tasks with one of these tags.")
]
SkipTagsOption = Annotated[
    list[str] | None, typer.Option("--skip-tags", help="No task with one of these tags.")
]
VariablesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--extra-vars", "-e", metavar="NAME=VALUE", help="Variables; also @FILE, or {...}."
    ),
]


@grouped
def play(
    reach: Reach,
    changing: ChangeOptions,
    playbook: Annotated[Path, typer.Argument(metavar="FILE", help="The playbook.")],
    tags: TagsOption = None,
    skip_tags: SkipTagsOption = None,
    start_at_task: Annotated[
        str | None, typer.Option("--start-at-task", help="The name of the first task to run.")
    ] = None,
    step: Annotated[bool, typer.Option("--step", help="Ask before each task.")] = False,
    extra_vars: VariablesOption = None,
    check: CheckOption = False,
    diff: Annotated[bool, typer.Option("--diff", "-D", help="Show what changes in files.")] = False,
    list_tasks: Annotated[bool, typer.Option("--list-tasks", help="List, and do nothing.")] = False,
    list_hosts: Annotated[bool, typer.Option("--list-hosts", help="List, and do nothing.")] = False,
    syntax_check: Annotated[
        bool, typer.Option("--syntax-check", help="Read the playbook, and do nothing.")
    ] = False,
    recipes: RecipesOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
    verbose: VerboseOption = 0,
) -> int:
    """Run a playbook, with the rules of ansible-playbook.

    It has tasks for hosts and for deployments. `orc up`, `orc roll` and `orc down` run such
    files, too; they are short, and made to be copied.
    """
    from orchestrator.play.actions.registry import ACTIONS
    from orchestrator.play.change import run_change
    from orchestrator.play.choice import Choice
    from orchestrator.play.playbook import read_playbook
    from orchestrator.play.run import Run
    from orchestrator.recipes.catalog import Catalog

    plays = read_playbook(playbook, ACTIONS)
    variables = extra_variables(extra_vars or [])
    choice = Choice(
        tags=_words(tags) or frozenset({"all"}),
        skip_tags=_words(skip_tags),
        start_at=start_at_task,
        ask=_asker() if step else None,
    )
    choice.check(plays)
    if syntax_check or list_tasks or list_hosts:
        inventory = read_inventory(reach) if list_hosts else None
        listed = [_listed(one, choice, inventory, variables, list_tasks) for one in plays]
        _show(listed, str(playbook), as_json)
        return int(ExitStatus.OK)
    catalog = Catalog.load(recipes) if any(one.deployment for one in plays) else None
    with session(reach, as_json=as_json) as opened:
        run = Run(
            inventory=opened.inventory,
            pool=opened.pool,
            emit=opened.emit,
            catalog=catalog,
            check=check,
            diff=diff,
            verbose=verbose,
            variables=variables,
            request=changing.request(playbook.stem),
            confirm=None if yes or check or not sys.stdin.isatty() else _confirm,
        )
        recap = run_change(plays, run, choice)
        text, data = _result(recap, check=check)
        run.say("done", text, data=data)
        return int(recap.exit_status)


def _words(given: list[str] | None) -> frozenset[str]:
    """`--tags a,b --tags c`."""
    return frozenset(word for text in given or [] for word in text.split(",") if word)


def _confirm(question: str) -> bool:
    return typer.confirm(question, err=True)


def _asker() -> Any:
    """Asks about each task. Raises UsageError where nobody can answer."""
    if not sys.stdin.isatty():
        raise UsageError("--step asks before each task, and there is no terminal to ask at")

    def ask(name: str) -> str:
        while True:
            text = f"Perform task: {name} (N)o/(y)es/(c)ontinue"
            answer = typer.prompt(text, default="n", show_default=False, err=True)
            if answer[:1].lower() in ("n", "y", "c"):
                return str(answer[:1].lower())

    return ask


def _result(recap: Recap, *, check: bool) -> tuple[str, dict[str, Any]]:
    status = recap.exit_status
    lost = [host for host, n in recap.hosts.items() if n.get("failed") or n.get("unreachable")]
    if status != ExitStatus.OK:
        text = f"failed on {', '.join(lost)}" if lost else "failed"
    else:
        text = "nothing was done (--check)" if check else "done"
    return text, {"exit_status": int(status), "failed_hosts": lost}


def _listed(
    one: Play,
    choice: Choice,
    inventory: Inventory | None,
    variables: dict[str, Any],
    with_tasks: bool,
) -> dict[str, Any]:
    """A play as `--list-tasks` and `--list-hosts` show it."""
    from orchestrator.play.engine import PlaySettings

    data: dict[str, Any] = {"name": one.name}
    pattern = PlaySettings(one, variables).pattern()
    data["pattern"] = pattern
    if inventory is not None:
        data["hosts"] = inventory.matching(pattern)
    if with_tasks:
        chosen: Sequence[Task] = [task for task in one.all_tasks() if choice.tagged(task)]
        data["tasks"] = [
            {"name": task.name, "action": task.action.name, "tags": sorted(task.tags)}
            for task in chosen
        ]
    return data


def _show(plays: list[dict[str, Any]], playbook: str, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"playbook": playbook, "plays": plays}))
        return
    typer.echo(f"playbook: {playbook}")
    for number, one in enumerate(plays, 1):
        typer.echo(f"\n  play #{number} ({one['pattern']}): {one['name']}")
        if "hosts" in one:
            typer.echo(f"    hosts ({len(one['hosts'])}):")
            for host in one["hosts"]:
                typer.echo(f"      {host}")
        if "tasks" in one:
            typer.echo("    tasks:")
            for task in one["tasks"]:
                tags = f"\tTAGS: [{', '.join(task['tags'])}]" if task["tags"] else ""
                typer.echo(f"      {task['name']}{tags}")
