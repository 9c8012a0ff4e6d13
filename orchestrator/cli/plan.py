"""`orc plan`: who runs what, and the exact command of every node."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.grouped import grouped
from orchestrator.cli.options import (
    CheckOption,
    JsonOption,
    RecipesOption,
    VerboseOption,
    YesOption,
)
from orchestrator.cli.selection import Selection
from orchestrator.cli.session import Reach, read_inventory, session
from orchestrator.errors import UsageError

if TYPE_CHECKING:
    from orchestrator.deployment import Deployment
    from orchestrator.facts.host_facts import HostFacts
    from orchestrator.inventory.load import Inventory
    from orchestrator.recipes.catalog import Catalog
    from orchestrator.topology.placement import Placement
    from orchestrator.topology.ports import PortUse


@grouped
def plan(
    reach: Reach,
    selection: Selection,
    recipes: RecipesOption = None,
    gather_facts: Annotated[
        bool,
        typer.Option(
            "--gather-facts", help="Ask the hosts for what the inventory leaves open, as up does."
        ),
    ] = False,
    svg: Annotated[
        Path | None,
        typer.Option("--svg", metavar="FILE", help="Write the plan as a picture; - is stdout."),
    ] = None,
    draw: Annotated[
        bool, typer.Option("--draw", help="Draw hosts and GPUs, in place of table and commands.")
    ] = False,
    suggest: Annotated[
        bool,
        typer.Option("--suggest", help="List the recipe's strategies that fit these hosts."),
    ] = False,
    check: CheckOption = False,  # noqa: ARG001 - it is all that this does
    yes: YesOption = False,  # noqa: ARG001 - asks nothing; the line of `orc up` is given to it
    as_json: JsonOption = False,
    verbose: VerboseOption = 0,
) -> None:
    """Show what `orc up` would run, on which GPU of which host.

    Touches no host, unless facts are asked for.
    """
    from orchestrator.cli.plan_picture import drawing_for, write_svg
    from orchestrator.cli.plan_text import plan_text
    from orchestrator.planning.build import plan as make_plan
    from orchestrator.recipes.catalog import Catalog

    if as_json + draw + (svg == Path("-")) > 1:
        raise UsageError(
            "stdout can hold one of --json, --draw and --svg -",
            hint="give --svg a file, or leave one out",
        )
    wanted = selection.read()
    if gather_facts:
        hosts, facts, ports, running = _asked(reach, Catalog.load(recipes), wanted)
    else:
        hosts, facts, ports, running = read_inventory(reach), {}, None, None
    if suggest:
        sys.stdout.write(_suggestions(hosts, Catalog.load(recipes), wanted, facts, as_json))
        return
    result = make_plan(hosts, Catalog.load(recipes), wanted, facts, ports, running)
    if svg is not None:
        write_svg(result, svg)
    if svg == Path("-"):
        return
    if as_json:
        sys.stdout.write(json.dumps(result.to_dict(), indent=2) + "\n")
    elif draw:
        sys.stdout.write(drawing_for(result, sys.stdout) + "\n")
    else:
        sys.stdout.write(plan_text(result, verbose) + "\n")


def _suggestions(
    hosts: Inventory,
    catalog: Catalog,
    wanted: Deployment,
    facts: dict[str, HostFacts],
    as_json: bool,
) -> str:
    from orchestrator.cli.suggest import suggestions_json, suggestions_text
    from orchestrator.planning.suggest import suggest

    shown = suggestions_json if as_json else suggestions_text
    return shown(wanted.recipe, suggest(hosts, catalog, wanted, facts))


def _asked(
    reach: Reach, catalog: Catalog, wanted: Deployment
) -> tuple[Inventory, dict[str, HostFacts], PortUse, Placement]:
    """The inventory, what its hosts say, the ports that are not free for the deployment,
    and where its replicas run.

    Raises ErrorGroup for hosts that do not answer.
    """
    from orchestrator.errors import ErrorGroup, UnreachableError
    from orchestrator.health.observation import observe
    from orchestrator.planning.model_files import model_places
    from orchestrator.planning.port_use import ports_in_use
    from orchestrator.planning.running import running_placement
    from orchestrator.play.actions.preflight import gather_facts

    name = wanted.deployment_name()
    with session(reach, as_json=True) as opened:
        models = model_places(opened.inventory, catalog, wanted)
        facts, unreachable = gather_facts(opened.pool, opened.inventory.hosts, models)
        seen = observe(opened.pool, facts)
    if unreachable:
        raise ErrorGroup(UnreachableError(why) for why in unreachable.values())
    everything = [state for host in seen.hosts for state in host.containers]
    ports, running = ports_in_use(name, facts, everything), running_placement(name, everything)
    return opened.inventory, facts, ports, running
