"""Engines behind a prefill/decode router, marked as draining or not; see planning/draining.py."""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.planning.draining import MARKER
from orchestrator.play.actions.by_host import on_each_host
from orchestrator.play.actions.running import Running
from orchestrator.play.run import Run
from orchestrator.runtime.containers import ContainerState
from orchestrator.runtime.marker_scripts import mark_script


def mark_draining(
    run: Run, seen: Running, states: Iterable[ContainerState], *, present: bool
) -> None:
    on_each_host(
        run,
        [(state.host, state.name) for state in states],
        lambda names: mark_script(names, seen.deployment, MARKER, present=present),
        "mark as draining" if present else "mark as serving",
    )
