"""Which lines of logs are wanted."""

from __future__ import annotations

import re

import pytest

from orchestrator.cli.logs import moment
from orchestrator.errors import UsageError
from orchestrator.health.container_logs import LogsWanted


@pytest.mark.parametrize(
    ("pattern", "literal"),
    [
        ("ERROR", "ERROR"),
        ("rank 3 ", "rank 3 "),
        ("a/b-c:d", "a/b-c:d"),
        ("ERR.R", None),
        ("^x", None),
        ("a|b", None),
        (r"\d", None),
        ("(?i)x", None),
        ("[a]", None),
    ],
)
def test_only_a_pattern_that_is_mere_text_is_left_to_the_hosts_grep(
    pattern: str, literal: str | None
) -> None:
    assert LogsWanted(pattern=re.compile(pattern)).literal == literal


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("10m", "600.000s"),
        ("1h30m", "5400.000s"),
        ("250ms", "0.250s"),
        ("2026-11-30T14:05:00Z", "2026-11-30T14:05:00+00:00"),
        ("2026-11-30T14:05:00+02:00", "2026-11-30T12:05:00+00:00"),
    ],
)
def test_a_moment_is_told_to_every_host_alike(text: str, meant: str) -> None:
    assert moment(text) == meant


@pytest.mark.parametrize("text", ["nonsense", "10", "10 minutes", "", "m", "-5m", "99999h", "10x"])
def test_what_is_no_moment_is_wrong_usage(text: str) -> None:
    with pytest.raises(UsageError, match="neither a time nor an age"):
        moment(text)
