"""`orc play` on real hosts: the example of a user's playbook, with the stand-in for vLLM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestrator.packaged import packaged_directory
from tests.e2e.conftest import Orc, Outcome
from tests.fleet import Fleet

GROUPS = """
all:
  children:
    large: {hosts: {node01: , node02: }}
    small: {hosts: {node03: }}
"""
# Notes on the host itself when it was called, and with what.
BALANCER = "sh -c 'echo $(date +%s.%N) $1 >>/tmp/balancer' sh"


@pytest.fixture(scope="module")
def fleet(fleet_of: Callable[[int], Fleet]) -> Fleet:
    return fleet_of(3)


@pytest.fixture
def groups(tmp_path: Path) -> Path:
    path = tmp_path / "groups.yml"
    path.write_text(GROUPS)
    return path


@pytest.fixture
def two_models(fleet: Fleet, orc: Orc, groups: Path) -> Iterator[list[str]]:
    """The words that run the example on this fleet."""
    for host in fleet.hosts:
        fleet.host(host).run(["rm", "-f", "/tmp/balancer"])
    values = {"large_model": "orc/tiny-llama", "small_model": "orc/tiny-qwen3-moe"}
    yield [
        *("play", str(packaged_directory("playbooks") / "examples" / "two-models.yml")),
        *("-i", str(fleet.inventory), "-i", str(groups)),
        *(word for name, value in values.items() for word in ("-e", f"{name}={value}")),
        *("-e", f'{{balancer: "{BALANCER}"}}'),
    ]
    orc("down", "--all", "--yes")


def with_image(orc: Orc, words: list[str], image: str, *more: str) -> Outcome:
    return orc(*words, "-e", f"image={image}", *more)


def told(outcome: Outcome, kind: str) -> list[tuple[str, str]]:
    """(task, host) of every result of a kind, in order."""
    return [(e["task"], e["host"]) for e in outcome.events() if e["kind"] == kind and "host" in e]


def started(fleet: Fleet, host: str) -> float:
    (container,) = fleet.containers(fleet.host(host))
    text = f"date -d \"$(docker inspect -f '{{{{.State.StartedAt}}}}' {container.name})\" +%s.%N"
    return float(fleet.host(host).run(["sh", "-c", text]).stdout)


def test_two_models_with_a_hook_and_a_serial_list(
    fleet: Fleet, orc: Orc, two_models: list[str]
) -> None:
    checked = with_image(orc, two_models, fleet.fast_image, "--check", "--json")
    assert checked.status == 0, checked.text
    assert all(not fleet.containers(host) for host in fleet.hosts)
    assert ("start", "node02") in told(checked, "changed")

    done = with_image(orc, two_models, fleet.fast_image, "--json")
    assert done.status == 0, done.text
    starts = [host for task, host in told(done, "changed") if task == "start"]
    assert starts == ["node01", "node02", "node03"]
    moments = []
    for host in ("node01", "node02"):
        lines = fleet.host(host).run(["cat", "/tmp/balancer"]).stdout.splitlines()
        assert [line.split()[1] for line in lines] == ["remove", "add"]
        removed, added = (float(line.split()[0]) for line in lines)
        moments += [removed, started(fleet, host), added]
    assert moments == sorted(moments), "each replica is out while it starts, one after the other"
    motd = fleet.host("node03").run(["cat", "/etc/motd"]).stdout
    assert motd.startswith("small: orc/tiny-qwen3-moe at http://") and motd.endswith(":8001\n")

    before = {host.name: fleet.containers(host)[0].id for host in fleet.hosts}
    again = with_image(orc, two_models, fleet.fast_image, "--json")
    assert again.status == 0, again.text
    assert {host.name: fleet.containers(host)[0].id for host in fleet.hosts} == before
    assert [e for e in told(again, "changed") if e[0] in ("start", "copy")] == []

    locks = orc("lock", "status", "--json").text
    assert "play" not in locks, locks
    history = orc("history", "large").text
    assert "two-models" in history, history


def test_a_replica_that_cannot_start_leaves_the_others_as_they_are(
    fleet: Fleet, orc: Orc, two_models: list[str]
) -> None:
    assert with_image(orc, two_models, fleet.fast_image).status == 0
    kept = {name: fleet.containers(fleet.host(name))[0].id for name in ("node02", "node03")}
    fleet.host("node01").run(["sh", "-c", "rm -rf /root/.orc; echo in the way >/root/.orc"])
    try:
        done = with_image(orc, two_models, fleet.other_fast_image, "--json", "--diff")
    finally:
        fleet.host("node01").run(["rm", "-f", "/root/.orc"])
    assert done.status == 2, done.text
    assert ("start", "node01") in told(done, "failed")
    notes = [event["message"] for event in done.events() if event["kind"] == "note"]
    assert any("image" in note and fleet.other_fast_image in note for note in notes), notes
    now = {name: fleet.containers(fleet.host(name))[0].id for name in kept}
    assert now == kept
