"""`orc status`: what runs, and whether it is healthy. Needs only the inventory and the labels."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from orchestrator.cli.grouped import grouped
from orchestrator.cli.options import (
    DeploymentArgument,
    JsonOption,
    VerboseOption,
)
from orchestrator.cli.session import Reach, session
from orchestrator.errors import ExitStatus

if TYPE_CHECKING:
    from orchestrator.health.look import Look


@grouped
def status(
    reach: Reach,
    name: DeploymentArgument = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Look again and again, until Ctrl-C.")
    ] = False,
    interval: Annotated[
        float, typer.Option("--interval", min=0.5, help="Seconds between two looks of --watch.")
    ] = 2.0,
    as_json: JsonOption = False,
    verbose: VerboseOption = 0,  # noqa: ARG001 - read in cli.main
) -> int:
    """Show the state of every rank and endpoint.

    Health, uptime, GPUs, requests, KV cache, tokens per second. Exit status: 0 healthy, 2
    failed, 4 hosts unreachable. Rates are those of the last second, or since the look before.
    """
    from orchestrator.health.look import look

    with session(reach) as opened:
        hosts = list(opened.inventory.hosts)

        def again(before: Look | None) -> Look:
            return look(opened.pool, hosts, name, before)

        if watch:
            _watch(again, name, interval, as_json)
        found = again(None)
    result = exit_status(found, name)
    if as_json:
        sys.stdout.write(json.dumps(document(found, name), indent=2) + "\n")
    else:
        from orchestrator.cli.status_text import status_lines

        sys.stdout.write("\n".join(status_lines(found, name)) + "\n")
    return int(result)


def exit_status(found: Look, name: str | None = None) -> ExitStatus:
    """A failure that is known weighs more than what is not known.

    A deployment that was named and of which no container runs anywhere is a failure as well.
    """
    if any(one.failed for one in found.statuses) or found.seen.broken:
        return ExitStatus.FAILED
    if found.seen.unreachable:
        return ExitStatus.UNREACHABLE
    return ExitStatus.FAILED if name and not found.statuses else ExitStatus.OK


def document(found: Look, name: str | None) -> dict[str, Any]:
    """What `--json` prints; the README says what its fields mean."""
    return {
        "deployments": [one.to_dict() for one in found.statuses],
        "unreachable": dict(found.seen.unreachable),
        "broken": dict(found.seen.broken),
        "exit_status": int(exit_status(found, name)),
    }


def _watch(
    again: Callable[[Look | None], Look], name: str | None, interval: float, as_json: bool
) -> NoReturn:
    """Look for ever: redrawn on a terminal, else one block of lines, or line of JSON, each time."""
    from orchestrator.cli.status_text import status_lines
    from orchestrator.events.console import use_colour

    show: Callable[[list[str]], None] = _write
    live = None
    if use_colour(sys.stdout) and not as_json:
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        live = Live(console=Console(file=sys.stdout), auto_refresh=False, screen=True)
        live.start()

        def show(lines: list[str]) -> None:
            assert live is not None
            live.update(Text("\n".join(lines), no_wrap=True, overflow="ellipsis"), refresh=True)

    found = None
    try:
        while True:
            began = time.monotonic()
            found = again(found)
            if as_json:
                line = {"time": round(time.time(), 3), **document(found, name)}
                show([json.dumps(line)])
            else:
                show([time.strftime("%H:%M:%S"), *status_lines(found, name), ""])
            time.sleep(max(0.0, interval - (time.monotonic() - began)))
    finally:
        if live is not None:
            live.stop()


def _write(lines: list[str]) -> None:
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()
