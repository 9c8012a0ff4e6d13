"""`orc restart`: the same containers once more, group by group whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.change_options import ChangeOptions, duration
from orchestrator.cli.grouped import grouped
from orchestrator.cli.options import CheckOption, JsonOption, VerboseOption, YesOption
from orchestrator.cli.session import Reach, choose, none_found, session
from orchestrator.errors import ExitStatus

if TYPE_CHECKING:
    from orchestrator.play.run import Run


@grouped
def restart(
    reach: Reach,
    changing: ChangeOptions,
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="The deployment; may be left out if it is the only."),
    ] = None,
    replica: Annotated[
        list[int] | None,
        typer.Option("--replica", min=0, help="Only this replica; may be given several times."),
    ] = None,
    timeout: Annotated[
        str, typer.Option("--timeout", help="How long a start may take, such as 45m.")
    ] = "45m",
    keep_failed: Annotated[
        bool, typer.Option("--keep-failed", help="Leave the other ranks of a failed start running.")
    ] = False,
    check: CheckOption = False,
    yes: YesOption = False,  # noqa: ARG001 - asks nothing yet; scripts give it everywhere
    as_json: JsonOption = False,
    verbose: VerboseOption = 0,
) -> int:
    """Stop all ranks and start the same containers again.

    Everything stops at once: `orc roll` goes replica by replica, without a lost request.
    """
    from orchestrator.health.observation import observe
    from orchestrator.play.actions.registry import ACTIONS
    from orchestrator.play.change import run_change
    from orchestrator.play.playbook import packaged_playbook, read_playbook
    from orchestrator.play.run import Run

    duration("--timeout", timeout)
    with session(reach, as_json=as_json) as opened:
        seen = observe(opened.pool, opened.inventory.hosts)
        chosen = choose(seen, name)
        if chosen is None or not seen.containers(chosen):
            raise none_found(seen, chosen, "orc up starts a deployment")
        run = Run(
            inventory=opened.inventory,
            pool=opened.pool,
            emit=opened.emit,
            name=chosen,
            check=check,
            verbose=verbose,
            variables={"replicas": replica, "timeout": timeout, "keep_failed": keep_failed},
            request=changing.request("restart"),
        )
        recap = run_change(read_playbook(packaged_playbook("restart"), ACTIONS), run)
        _say_result(run, recap.exit_status)
        return int(recap.exit_status)


def _say_result(run: Run, status: ExitStatus) -> None:
    if run.check:
        text = "nothing was done (--check)"
    elif status == ExitStatus.OK:
        text = f"{run.name} is restarted and healthy"
    else:
        text = f"{run.name} is not restarted; see orc status {run.name} and orc logs {run.name}"
    data = {
        "exit_status": int(status),
        "deployment": run.name,
        "restarted": sorted(run.healthy_after),
    }
    run.say("done", text, data=data)
