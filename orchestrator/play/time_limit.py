"""The `timeout` of a task that acts on many hosts at once."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TimeIsUp(KeyboardInterrupt):
    """Raised where Ctrl-C would be, so that everything that heeds that one ends as well."""


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raises TimeIsUp inside after `seconds`; only the main thread can have a limit.

    Another timer of the process goes on afterwards.
    """
    if seconds is None:
        yield
        return

    def ring(_: int, __: FrameType | None) -> None:
        raise TimeIsUp

    began = time.monotonic()
    handler = signal.signal(signal.SIGALRM, ring)
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        if left:
            rest = max(left - (time.monotonic() - began), 0.001)
            signal.setitimer(signal.ITIMER_REAL, rest, interval)
