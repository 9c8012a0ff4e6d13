"""Showing events must not end the work that they tell of: a run goes on when nobody reads it."""

from __future__ import annotations

import os
import sys
from typing import TextIO

from orchestrator.events.event import Event
from orchestrator.events.rendering import Rendering


class Undisturbed:
    """A rendering that goes quiet once its stream cannot be written: `orc up | head`, a full disk.

    To end there would leave hosts half changed, for the sake of a line that nobody reads.
    """

    def __init__(self, shown: Rendering, stream: TextIO) -> None:
        self._shown = shown
        self._stream = stream

    def __call__(self, event: Event) -> None:
        try:
            self._shown(event)
        except OSError as error:
            self._go_quiet(error)

    def close(self) -> None:
        try:
            self._shown.close()
        except OSError as error:
            self._go_quiet(error)

    def _go_quiet(self, error: OSError) -> None:
        silence(self._stream)
        sys.stderr.write(
            f"warning: standard output cannot be written any more: {error.strerror}. orc goes on;"
            " orc status and orc history tell how it ended\n"
        )


def silence(stream: TextIO) -> None:
    """Send what is still written to `stream`, and what it holds back, nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
