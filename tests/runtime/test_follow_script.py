"""Logs of several containers in one pipe, told apart again, whatever is in their lines."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from orchestrator.runtime.containers import ContainerState
from orchestrator.runtime.follow_script import FollowedLog, NumberedLines, follow_script

LABELS = {"orc.deployment": "kimi"}
LONG = "wörtlich " * 2000

# Two containers: the one's log ends after a while, the other's does not.
DOCKER = f"""#!/bin/sh
case "$*" in
  "ps "*) echo one; echo two ;;
  "container inspect"*) [ -e changed ] && echo one exited || echo one running; echo two running ;;
  *" one") echo "$*"; printf 'bar 1\\rbar 2\\r\\n'; touch said; exec sleep 600 ;;
  *" two") for i in 1 2 3; do echo '{LONG}'; done; printf 'no end'; exec sleep 600 ;;
esac
"""


def states(*status: str) -> list[ContainerState]:
    names = ("one", "two")
    found = [ContainerState("a", n, n, s, LABELS) for n, s in zip(names, status, strict=True)]
    return [*found, ContainerState("a", "other", "other", "running")]


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_every_line_of_every_log_comes_whole_until_something_changes(
    shell: str, tmp_path: Path
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell}")
    (tmp_path / "docker").write_text(DOCKER)
    (tmp_path / "docker").chmod(0o755)
    logs = [FollowedLog("one", tail=5), FollowedLog("two", since="2026-01-01T00:00:00Z")]
    script = follow_script(logs, states("running", "running"), seconds=0.5)
    process = subprocess.Popen(
        [shell, "-s", "--", *script.arguments],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin and process.stdout
    process.stdin.write(script.text)
    process.stdin.close()
    lines, found = NumberedLines(), []
    for text in process.stdout:
        found += lines.feed(text.removesuffix("\n"))
        if len(found) == 6:
            (tmp_path / "changed").touch()
    assert process.wait(30) == 0, "it ends by itself, and all that it began with it"
    first = [line for number, line in found if number == 0]
    second = [line for number, line in found if number == 1]
    assert first == ["logs --timestamps --follow --tail 5 one", "bar 1", "bar 2"]
    assert second[:3] == [LONG.rstrip("\n")] * 3


@pytest.mark.parametrize(
    ("texts", "lines"),
    [
        (["0 a", "12 b c"], [(0, "a"), (12, "b c")]),
        (["0 "], [(0, "")]),
        (["0+d8O2", "1 x", "0+cnQ=", "0."], [(1, "x"), (0, "wört")]),
        (["0+YQ1i", "0."], [(0, "a"), (0, "b")]),
        (["sh: something is wrong"], []),
    ],
)
def test_numbered_lines(texts: list[str], lines: list[tuple[int, str]]) -> None:
    read = NumberedLines()
    assert [one for text in texts for one in read.feed(text)] == lines
