"""`orc roll`: a new spec, or just a restart, replica by replica, without a lost request."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import replace as replaced
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from orchestrator.cli.change_options import ChangeOptions, duration
from orchestrator.cli.grouped import grouped
from orchestrator.cli.options import (
    CheckOption,
    JsonOption,
    RecipesOption,
    VerboseOption,
    YesOption,
)
from orchestrator.cli.selection import Selection
from orchestrator.cli.session import Reach, choose, none_found, session
from orchestrator.errors import ExitStatus, InputError, UsageError

if TYPE_CHECKING:
    from orchestrator.play.engine import Recap
    from orchestrator.play.run import Run

Pull = Literal["always", "missing", "never"]


@grouped
def roll(
    reach: Reach,
    selection: Selection,
    changing: ChangeOptions,
    deployed: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="The deployment; may be left out if it is the only."),
    ] = None,
    max_unavailable: Annotated[
        str,
        typer.Option(
            "--max-unavailable",
            help="Replicas at once after the first, as a number or percentage.",
        ),
    ] = "1",
    surge: Annotated[
        bool,
        typer.Option("--surge", help="Start another replica on spare hosts first, for the time."),
    ] = False,
    drain_timeout: Annotated[
        str,
        typer.Option("--drain-timeout", help="How long requests may take; then they are cut off."),
    ] = "10m",
    pause: Annotated[
        str, typer.Option("--pause", help="How long to wait after each replica, such as 5m.")
    ] = "0",
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a roll that failed or was interrupted.")
    ] = False,
    rollback: Annotated[
        bool, typer.Option("--rollback", help="Go back to the spec before the last roll.")
    ] = False,
    pull: Annotated[Pull, typer.Option("--pull", help="When to pull the image.")] = "always",
    timeout: Annotated[
        str | None, typer.Option("--timeout", help="How long a start may take, such as 45m.")
    ] = None,
    check: CheckOption = False,
    recipes: RecipesOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
    verbose: VerboseOption = 0,
) -> int:
    """Restart a deployment replica by replica.

    The requests of each are ended before it stops. With a selection (as that of `orc up`)
    replicas get the new spec: image, arguments, environment. Without one the same containers
    are restarted. The first replica is the canary: if it does not become healthy, it is put
    back to what it was, and nothing else is touched.
    """
    from orchestrator.play.actions.registry import ACTIONS
    from orchestrator.play.change import run_change
    from orchestrator.play.playbook import packaged_playbook, read_playbook
    from orchestrator.play.run import Run
    from orchestrator.recipes.catalog import Catalog

    if rollback and (selection.given or resume):
        raise UsageError("--rollback goes back to what was; it takes no selection and no --resume")
    if timeout is not None:
        more = [*(selection.assignments or []), f"health.timeout={timeout}"]
        selection = replaced(selection, assignments=more)
    if selection.given and deployed:
        selection = replaced(selection, name=deployed)
    wanted = selection.read() if selection.given else None
    playbook = "rolling-restart" if wanted else "rollback" if rollback else "rolling-restart-same"
    variables: dict[str, Any] = {
        "batches": [1, _batch(max_unavailable)],
        "drain_timeout": duration("--drain-timeout", drain_timeout),
        "pause": duration("--pause", pause),
    }
    if not rollback:
        variables["resume"] = resume
    if wanted:
        variables |= {"pull": pull, "surge": surge}
    elif surge:
        raise UsageError("--surge starts a replica of the new spec, so it wants a selection")
    plays = read_playbook(packaged_playbook(playbook), ACTIONS)
    with session(reach, as_json=as_json) as opened:
        run = Run(
            inventory=opened.inventory,
            pool=opened.pool,
            emit=opened.emit,
            catalog=Catalog.load(recipes) if wanted else None,
            deployment=wanted,
            name=wanted.deployment_name() if wanted else None,
            check=check,
            verbose=verbose,
            variables=variables,
            request=changing.request(playbook),
            confirm=None if yes or check or not sys.stdin.isatty() else _confirm,
        )
        if wanted is None:
            from orchestrator.health.observation import observe

            seen = observe(opened.pool, opened.inventory.hosts)
            run.name = choose(seen, deployed)
            if run.name is None:
                if seen.unknown:
                    raise none_found(seen, hint="orc up starts it")
                raise InputError("nothing is deployed on these hosts", hint="orc up starts it")
        recap = run_change(plays, run)
        _say_result(run, recap)
        return int(recap.exit_status)


def _batch(text: str) -> int | str:
    if not re.fullmatch(r"[1-9]\d*%?", text):
        raise UsageError(f"--max-unavailable is a number from 1 up or a percentage, not {text!r}")
    return text if text.endswith("%") else int(text)


def _confirm(question: str) -> bool:
    return typer.confirm(question, err=True)


def _replicas(numbers: Sequence[int]) -> str:
    """`replica 0`, `replicas 0, 2`; nothing of none."""
    if not numbers:
        return ""
    return f"replica{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"


def _say_result(run: Run, recap: Recap) -> None:
    status = recap.exit_status
    back = run.request.playbook == "rollback"
    done = sorted(run.rolled if back else run.rolled - run.put_back)
    names = _replicas(done)
    if run.check:
        text = "nothing was done (--check)"
    elif status == ExitStatus.OK:
        word = "rolled back" if back else "rolled"
        text = f"{run.name} is {word}: {names}" if done else f"{run.name}: nothing to roll"
    else:
        text = "the roll has failed"
        if run.put_back and not back:
            what = "runs what it" if len(run.put_back) == 1 else "run what they"
            text += f"; {_replicas(sorted(run.put_back))} {what} ran before"
        text += f"; rolled until then: {names or 'none'}"
        if run.touched and not back:
            text += "\ngo on, when the cause is mended: the same command with --resume"
            text += f"; or back: orc roll {run.name} --rollback"
        elif run.touched:
            text += "\ngo on, when the cause is mended: the same command again"
    data = {
        "exit_status": int(status),
        "deployment": run.name,
        "rolled": done,
        "put_back": sorted(run.put_back),
    }
    run.say("done", text, data=data)
