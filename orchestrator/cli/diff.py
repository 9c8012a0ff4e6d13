"""`orc diff`: what differs between the plan and what runs. Looks only, and changes nothing."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.cli.grouped import grouped
from orchestrator.cli.options import JsonOption, RecipesOption, VerboseOption
from orchestrator.cli.selection import Selection
from orchestrator.cli.session import Reach, Session, session
from orchestrator.errors import ExitStatus, each_cause_once

if TYPE_CHECKING:
    from orchestrator.deployment import Deployment
    from orchestrator.planning.drift import NodeDrift
    from orchestrator.recipes.catalog import Catalog


@dataclass(frozen=True, slots=True)
class Comparison:
    """A deployment's nodes, differing or not, and the hosts that could not be asked."""

    name: str
    nodes: list[NodeDrift]
    unreachable: dict[str, str]
    broken: dict[str, str]

    @property
    def exit_status(self) -> ExitStatus:
        """2 where something differs, as well as where docker does not answer; else 4 or 0."""
        if self.broken or any(node.differences for node in self.nodes):
            return ExitStatus.FAILED
        return ExitStatus.UNREACHABLE if self.unreachable else ExitStatus.OK

    def to_dict(self) -> dict[str, Any]:
        return {
            "deployment": self.name,
            "nodes": [node.to_dict() for node in self.nodes],
            "unreachable": self.unreachable,
            "broken": self.broken,
            "exit_status": int(self.exit_status),
        }


@grouped
def diff(
    reach: Reach,
    selection: Selection,
    recipes: RecipesOption = None,
    as_json: JsonOption = False,
    verbose: VerboseOption = 0,  # noqa: ARG001 - read in cli.main
) -> int:
    """Show what differs between the plan and what runs.

    Per node, by field: running -> planned. Exit status: 0 no difference, 2 something differs, 4
    a host could not be asked.
    """
    from orchestrator.recipes.catalog import Catalog

    wanted, catalog = selection.read(), Catalog.load(recipes)
    with session(reach, as_json=as_json) as opened:
        found = compare(opened, catalog, wanted)
    if as_json:
        sys.stdout.write(json.dumps(found.to_dict(), indent=2) + "\n")
    else:
        sys.stdout.write("\n".join(comparison_lines(found)) + "\n")
    return int(found.exit_status)


def show_differences(
    reach: Reach, wanted: Deployment, recipes: list[Path] | None, *, as_json: bool
) -> None:
    """As `orc diff`, as one event: for a command that goes on to change what differs."""
    from orchestrator.events.event import Event
    from orchestrator.recipes.catalog import Catalog

    catalog = Catalog.load(recipes)
    with session(reach, as_json=as_json) as opened:
        found = compare(opened, catalog, wanted)
        opened.emit(Event("diff", "\n".join(comparison_lines(found)), data=found.to_dict()))


def compare(opened: Session, catalog: Catalog, wanted: Deployment) -> Comparison:
    """Plan as `orc up` would, and look at what runs. Raises InputError as planning does."""
    from orchestrator.health.details import fetch_details
    from orchestrator.health.observation import observe
    from orchestrator.planning.build import plan as make_plan
    from orchestrator.planning.drift import find_drift
    from orchestrator.planning.keep_services import keep_services
    from orchestrator.planning.model_files import model_places
    from orchestrator.planning.port_use import ports_in_use
    from orchestrator.planning.running import running_placement
    from orchestrator.play.actions.preflight import gather_facts

    name = wanted.deployment_name()
    models = model_places(opened.inventory, catalog, wanted)
    facts, unreachable = gather_facts(opened.pool, opened.inventory.hosts, models)
    seen = observe(opened.pool, facts)
    everything = [state for host in seen.hosts for state in host.containers]
    ports, running = ports_in_use(name, facts, everything), running_placement(name, everything)
    plan = make_plan(opened.inventory, catalog, wanted, facts, ports, running)
    plan = keep_services(plan, everything)
    answering = [host.host for host in seen.hosts]
    details, salt, failed = fetch_details(opened.pool, answering, plan)
    broken = {**seen.broken, **{host: error.reason for host, error in failed.items()}}
    gone = {**unreachable, **seen.unreachable}
    nodes = find_drift(plan, everything, details, salt, {*gone, *broken})
    return Comparison(name, nodes, gone, broken)


def comparison_lines(found: Comparison) -> list[str]:
    """For a person: every difference, and what could not be asked."""
    from orchestrator.planning.drift import drift_lines

    lines = drift_lines(found.nodes)
    for host, why in each_cause_once({**found.unreachable, **found.broken}).items():
        lines += f"{host}: unknown: {why.removeprefix(f'{host}: ')}".splitlines()
    if lines:
        return lines
    count = len(found.nodes)
    return [f"{found.name}: no difference on {count} node{'s' * (count != 1)}"]
