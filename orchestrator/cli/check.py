"""`orc check`: are the hosts fit for a plan, before anything is started."""

from __future__ import annotations

from orchestrator.cli.grouped import grouped
from orchestrator.cli.options import (
    CheckOption,
    JsonOption,
    RecipesOption,
    VerboseOption,
    YesOption,
)
from orchestrator.cli.selection import Selection
from orchestrator.cli.session import Reach
from orchestrator.cli.up import play_packaged


@grouped
def check(
    reach: Reach,
    selection: Selection,
    recipes: RecipesOption = None,
    check: CheckOption = False,  # noqa: ARG001 - it is all that this does
    yes: YesOption = False,  # noqa: ARG001 - asks nothing; the line of `orc up` is given to it
    as_json: JsonOption = False,
    verbose: VerboseOption = 0,  # noqa: ARG001 - read in cli.main
) -> int:
    """Check that the hosts can run the plan.

    Without a selection the hosts alone are checked.
    """
    return play_packaged(
        "preflight",
        reach,
        wanted=selection.read() if selection.given else None,
        recipes=recipes,
        variables={},
        check=False,
        as_json=as_json,
    )
