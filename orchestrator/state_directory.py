"""Where orc keeps what it writes down on the user's own machine."""

from __future__ import annotations

import os
from pathlib import Path


def state_directory() -> Path:
    """`$XDG_STATE_HOME/orc`, by custom below `~/.local/state`."""
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "orc"
