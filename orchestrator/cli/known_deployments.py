"""The deployments that this machine knows of: by the history of changes, and by benchmarks."""

from __future__ import annotations

import json
from collections.abc import Iterator

from orchestrator.state_directory import state_directory


def known_deployments() -> list[str]:
    """The deployments that the history or a benchmark names; none where nothing can be read."""
    try:
        return sorted({*_in_history(), *_with_benchmarks()})
    except OSError:
        return []


def _in_history() -> Iterator[str]:
    path = state_directory() / "history.jsonl"
    for line in path.read_text(errors="replace").splitlines() if path.is_file() else ():
        try:
            name = json.loads(line)["deployment"]
        except (ValueError, KeyError, TypeError):
            continue
        if isinstance(name, str):
            yield name


def _with_benchmarks() -> Iterator[str]:
    directory = state_directory() / "bench"
    if directory.is_dir():
        yield from (path.name for path in directory.iterdir() if path.is_dir())
