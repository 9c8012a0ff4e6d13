"""Remembers the arguments of every node that is planned while the tests run."""

from __future__ import annotations

import functools
from typing import Any

from orchestrator.planning.launch_spec import LaunchSpec

PLANNED: set[tuple[str, ...]] = set()


def remember_what_is_planned() -> None:
    """Note the argv of every LaunchSpec that is made from now on."""
    made = LaunchSpec.__init__

    @functools.wraps(made)
    def noted(self: LaunchSpec, *args: Any, **values: Any) -> None:
        made(self, *args, **values)
        PLANNED.add(tuple(self.argv))

    LaunchSpec.__init__ = noted  # type: ignore[method-assign]
