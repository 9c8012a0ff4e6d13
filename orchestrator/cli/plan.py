"""`orc plan`: who runs what, and the exact command of every node."""

from __future__ import annotations

import json
import sys

from orchestrator.cli import selection
from orchestrator.cli.options import InventoryOption, JsonOption, LimitOption, RecipesOption


def plan(
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
    limit: LimitOption = None,
    recipes: RecipesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what `orc up` would run, on which GPU of which host. Touches no host."""
    from orchestrator.cli.plan_text import plan_text
    from orchestrator.inventory.load import Inventory
    from orchestrator.planning.build import plan as make_plan
    from orchestrator.recipes.catalog import Catalog

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
    hosts = Inventory.load(inventory)
    if limit:
        hosts = hosts.limit(limit)
    result = make_plan(hosts, Catalog.load(recipes), wanted)
    if as_json:
        sys.stdout.write(json.dumps(result.to_dict(), indent=2) + "\n")
    else:
        sys.stdout.write(plan_text(result) + "\n")
