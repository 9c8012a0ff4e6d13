"""Hosts whose login shell greets before every command, on either stream."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.conftest import TINY, Orc
from tests.fleet import Fleet

pytestmark = pytest.mark.fleet

FAST = (*TINY, "--strategy", "multi_node_tp", "--nodes", "2", "--name", "fast")


@pytest.fixture(autouse=True)
def greeting(fleet: Fleet) -> Iterator[None]:
    """What bash reads before a command of sshd's, of which no word is in what is tested."""
    said = "echo WELCOME; echo ERRMOTD >&2; printf no-end"
    for host in fleet.hosts:
        host.run(["sh", "-c", f"echo '{said}' >/root/.bashrc"])
    yield
    for host in fleet.hosts:
        host.run(["rm", "-f", "/root/.bashrc"])
    fleet.clear()


def test_no_word_of_it_gets_into_anything(fleet: Fleet, orc: Orc) -> None:
    words = (*FAST, "--image", fleet.fast_image)
    check = orc("check", *words)
    assert check.status == 0, check.text
    up = orc("up", *words)
    assert up.status == 0, up.text
    status = orc("status", "fast")
    assert status.status == 0 and " up " in status.text, status.text
    said = orc("exec", "all", "--", "hostname").out
    assert sorted(said.splitlines()) == ["node01 | node01", "node02 | node02"]
    logs = orc("logs", "fast")
    down = orc("down")
    assert down.status == 0
    for done in (check, up, status, logs, down):
        assert not {"WELCOME", "ERRMOTD", "no-end"} & set(done.text.split()), done.text
