"""`orc check`: are the hosts fit for a plan, before anything is started."""

from __future__ import annotations

from orchestrator.cli import selection
from orchestrator.cli.options import (
    AcceptHostKeysOption,
    ForksOption,
    InventoryOption,
    JsonOption,
    LimitOption,
    RecipesOption,
    VaultOption,
    VerboseOption,
)
from orchestrator.cli.session import Reach
from orchestrator.cli.up import play_packaged


def check(
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
    vault_password_file: VaultOption = None,
    forks: ForksOption = 32,
    accept_new_host_keys: AcceptHostKeysOption = False,
    as_json: JsonOption = False,
    verbose: VerboseOption = 0,  # noqa: ARG001 - read in cli.main
) -> int:
    """Check that the hosts can run the plan; without a selection, check the hosts alone."""
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
    given = deployment is not None or assignments or any(v is not None for v in flags.values())
    return play_packaged(
        "preflight",
        Reach(inventory, limit, vault_password_file, forks, accept_new_host_keys),
        wanted=selection.read_deployment(deployment, flags, assignments) if given else None,
        recipes=recipes,
        variables={},
        check=False,
        as_json=as_json,
    )
