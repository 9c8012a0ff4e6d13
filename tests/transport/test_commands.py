"""Commands over a real sshd and on this machine: the same behaviour of both."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from orchestrator.inventory.host import ConnectionSettings, Host, HostSettings
from orchestrator.transport.connection import Connection
from tests.transport.conftest import Client
from tests.transport.sshd import Sshd


@pytest.fixture(params=["ssh", "local"])
def connection(request: pytest.FixtureRequest, client: Client) -> Connection:
    if request.param == "ssh":
        server: Sshd = request.getfixturevalue("sshd")
        return client.pool(server.host()).connection("node01")
    host = Host("node01", ConnectionSettings(kind="local"), HostSettings())
    return client.pool(host).connection("node01")


def processes(word: str) -> list[str]:
    """The command lines that hold `word`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if word in line and str(os.getpid()) != path.parent.name:
            found.append(line)
    return found


def gone(word: str, seconds: float = 8) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not processes(word):
            return True
        time.sleep(0.1)
    return False


def test_arguments_arrive_as_they_are(connection: Connection) -> None:
    words = ["a b", "c'd", "$HOME", "*", "", "x\ny", 'q"r', "ü", "-n"]
    result = connection.run(["printf", "<%s>", *words])
    assert result.stdout == "".join(f"<{word}>" for word in words)
    assert result.exit_status == 0


def test_output_streams_are_kept_apart(connection: Connection) -> None:
    result = connection.run(["sh", "-c", "echo out; echo err >&2; exit 7"])
    assert (result.stdout, result.stderr, result.exit_status) == ("out\n", "err\n", 7)
