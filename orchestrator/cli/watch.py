"""`orc watch`: restart groups whole when a rank ends or completions fail."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli.change_options import duration, shown_command
from orchestrator.cli.grouped import grouped
from orchestrator.cli.options import DeploymentArgument, JsonOption, VerboseOption
from orchestrator.cli.session import Reach, session
from orchestrator.cli.watch_unit import (
    next_commands,
    unit_name,
    unit_places,
    unit_text,
    write_unit,
)

if TYPE_CHECKING:
    from orchestrator.events.event import Emit, Event


@grouped
def watch(
    reach: Reach,
    name: DeploymentArgument = None,
    interval: Annotated[
        str, typer.Option("--interval", help="Between two looks at a host.")
    ] = "5s",
    canary_interval: Annotated[
        str, typer.Option("--canary-interval", help="Between two completions asked.")
    ] = "15s",
    canary_timeout: Annotated[
        str, typer.Option("--canary-timeout", help="How long a completion may take.")
    ] = "60s",
    canary_failures: Annotated[
        int, typer.Option("--canary-failures", min=1, help="So many in a row restart the group.")
    ] = 3,
    start_timeout: Annotated[
        str, typer.Option("--start-timeout", help="How long a start may take.")
    ] = "45m",
    pause: Annotated[
        str,
        typer.Option(
            "--pause", help="Before the first restart; it doubles with each, up to 5 min."
        ),
    ] = "10s",
    budget: Annotated[
        int, typer.Option("--budget", min=0, help="Restarts of a group within an hour.")
    ] = 5,
    break_lock: Annotated[
        bool, typer.Option("--break-lock", help="Take over from another orc watch.")
    ] = False,
    install: Annotated[
        bool, typer.Option("--install", help="Write a systemd unit that runs this, and end.")
    ] = False,
    print_unit: Annotated[
        bool, typer.Option("--print-unit", help="Print that unit, and end.")
    ] = False,
    as_json: JsonOption = False,
    verbose: VerboseOption = 0,  # noqa: ARG001 - read in cli.main
) -> int:
    """Supervise a deployment, or all: restart what fails, whole.

    Any rank's end, or completions that fail again and again, stop the whole group, and it is
    started again after a pause of 10 s to 5 min. A host that does not answer is not taken for
    dead, and whoever changes a deployment (orc up, roll, down) is left alone. After too many
    restarts within an hour a group is given up and kept.
    """
    from orchestrator.health.supervise import Policy
    from orchestrator.play.request import Request
    from orchestrator.play.supervision import Supervisor

    policy = Policy(
        canary_failures=canary_failures,
        start_timeout=duration("--start-timeout", start_timeout),
        first_pause=duration("--pause", pause),
        budget=budget,
    )
    seconds = {
        "interval": duration("--interval", interval),
        "canary_interval": duration("--canary-interval", canary_interval),
        "canary_timeout": duration("--canary-timeout", canary_timeout),
    }
    if install or print_unit:
        return _unit(reach, name, write=install)
    request = Request(shown_command(sys.argv[1:]), "watch", break_lock=break_lock)
    asked_to_end: list[int] = []
    signal.signal(signal.SIGTERM, _interrupt(asked_to_end))
    with session(reach, as_json=as_json) as opened:
        emit: Emit = opened.emit if as_json else _with_time(opened.emit)
        supervisor = Supervisor(
            opened.inventory, opened.pool, emit, request, name=name, policy=policy, **seconds
        )
        try:
            supervisor.run()
        except KeyboardInterrupt:
            if not asked_to_end:
                raise
    return 0


def _interrupt(asked_to_end: list[int]) -> Callable[[int, Any], None]:
    """systemd ends a service by SIGTERM: it ends in order, as by Ctrl-C, and has not failed."""

    def end(number: int, _: Any) -> None:
        asked_to_end.append(number)
        raise KeyboardInterrupt

    return end


def _with_time(emit: Emit) -> Emit:
    def timed(event: Event) -> None:
        moment = time.strftime("%H:%M:%S", time.localtime(event.time))
        emit(replace(event, message=f"{moment} {event.message}"))

    return timed


def _unit(reach: Reach, name: str | None, *, write: bool) -> int:
    user = os.geteuid() != 0
    directory, environment = unit_places(user=user)
    text = unit_text(_arguments(reach, sys.argv[1:]), environment, user=user)
    if not write:
        sys.stdout.write(text)
        return 0
    path = directory / unit_name(name)
    write_unit(path, text)
    sys.stdout.write(f"wrote {path}; now:\n")
    for command in next_commands(path.name, user=user):
        sys.stdout.write(f"  {command}\n")
    return 0


def _arguments(reach: Reach, words: Sequence[str]) -> list[str]:
    """The command line for systemd, which does not have ORC_INVENTORY."""
    kept = [word for word in words if word not in ("--install", "--print-unit")]
    if not any(word.startswith(("-i", "--inventory")) for word in kept):
        kept += [word for path in reach.inventory for word in ("-i", str(path.absolute()))]
    return kept
