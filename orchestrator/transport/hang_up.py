"""Hanging up, which must not fail."""

from __future__ import annotations

import contextlib
from typing import Protocol


class Closable(Protocol):
    def close(self) -> object: ...


def hang_up(connection: Closable) -> None:
    """Close a transport, a channel or a socket, whatever state it is in.

    paramiko says goodbye on closing, which raises EOFError (or OSError) when the other side, or
    the jump host's connection that carried it, is gone already.
    """
    with contextlib.suppress(EOFError, OSError):
        connection.close()
