"""Hanging up never fails for what the other side did."""

from __future__ import annotations

import pytest

from orchestrator.transport.hang_up import hang_up


class Gone:
    """paramiko's transport when the jump host's connection, which carried it, is closed."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def close(self) -> None:
        raise self._error


@pytest.mark.parametrize("error", [EOFError(), OSError("socket is closed"), BrokenPipeError()])
def test_a_goodbye_that_nobody_hears_is_no_error(error: Exception) -> None:
    hang_up(Gone(error))


def test_a_fault_of_our_own_is_not_hidden() -> None:
    with pytest.raises(TypeError):
        hang_up(Gone(TypeError()))
