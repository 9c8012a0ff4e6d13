"""A roll, or the way back from it, that ended between any two steps: what ran before is not lost.

With the stand-in for vLLM. What a killed orc leaves is made with docker, so that it is always
the same moment.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator

import pytest

from tests.e2e.conftest import TINY, Orc, container_ids, impatient
from tests.e2e.deployed import complete
from tests.fleet import Fleet

FAILS = "--set=env.STANDIN_FAIL=RuntimeError: boom"
HEAD, FOLLOWER = "orc-two-r0-n0", "orc-two-r0-n1"


@pytest.fixture(autouse=True)
def clean(fleet: Fleet) -> Iterator[None]:
    fleet.clear()
    yield
    fleet.clear()


@pytest.fixture
def words(fleet: Fleet) -> tuple[str, ...]:
    """One replica over two hosts."""
    return (
        *(*TINY, "--name", "two", "--strategy", "multi_node_tp", "--nodes", "2"),
        *("--image", fleet.fast_image),
    )


@pytest.fixture
def old(orc: Orc, fleet: Fleet, words: tuple[str, ...]) -> dict[str, str]:
    """The containers of the deployment, which is up."""
    up = orc("up", *words)
    assert up.status == 0, up.text
    return container_ids(fleet)


def put_aside(fleet: Fleet, host: str, name: str, suffix: str = "-before") -> None:
    fleet.host(host).docker("stop", "-t", "1", name)
    fleet.host(host).docker("rename", name, f"{name}{suffix}")


def assert_serves(fleet: Fleet, old: dict[str, str]) -> None:
    """The very containers that there were, and they answer."""
    now = container_ids(fleet)
    assert {name: now.get(name) for name in old} == old
    assert complete(f"http://{fleet.host('node01').addresses[0]}:8000").status_code == 200


def test_a_rank_that_was_not_put_aside_yet_is_not_taken_for_the_new_spec(
    fleet: Fleet, orc: Orc, old: dict[str, str]
) -> None:
    put_aside(fleet, "node01", HEAD)
    back = orc("roll", "two", "--rollback", timeout=60)
    assert back.status == 0, back.text
    assert_serves(fleet, old)


def test_a_way_back_that_was_broken_off_is_gone_on_with(
    fleet: Fleet, orc: Orc, words: tuple[str, ...], old: dict[str, str]
) -> None:
    rolled = orc("roll", *words, "--set", "env.MARK=new")
    assert rolled.status == 0, rolled.text
    put_aside(fleet, "node01", HEAD, "-after")
    fleet.host("node01").docker("rename", f"{HEAD}-before", HEAD)
    back = orc("roll", "two", "--rollback", timeout=60)
    assert back.status == 0, back.text
    assert_serves(fleet, old)

    for host, name in (("node01", HEAD), ("node02", FOLLOWER)):  # renamed, and not started
        fleet.host(host).docker("stop", "-t", "1", name)
    back = orc("roll", "two", "--rollback", timeout=60)
    assert back.status == 0, back.text
    assert_serves(fleet, old)


def test_what_never_served_does_not_take_the_place_of_the_spec_before(
    fleet: Fleet, orc: Orc, words: tuple[str, ...], old: dict[str, str]
) -> None:
    process = orc.start("roll", *words, "--set", "env.STANDIN_LOAD_SECONDS=300")
    orc.wait_for_output(f"started {FOLLOWER}")
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert container_ids(fleet)[f"{HEAD}-before"] == old[HEAD]
    rolled = orc("roll", *words, FAILS, "--resume", timeout=100)
    assert rolled.status == 2, rolled.text
    assert_serves(fleet, old)


def test_the_way_back_of_a_smaller_spec_takes_no_rank_of_a_larger_one(
    fleet: Fleet, orc: Orc, words: tuple[str, ...], old: dict[str, str]
) -> None:
    one = (*TINY, "--name", "two", "--image", fleet.fast_image)
    rolled = orc("roll", *one)
    assert rolled.status == 0, rolled.text
    assert container_ids(fleet)[f"{FOLLOWER}-before"] == old[FOLLOWER]
    smaller = {HEAD: container_ids(fleet)[HEAD]}
    rolled = orc("roll", *one, "--set", "env.MARK=new")
    assert rolled.status == 0, rolled.text
    assert f"{FOLLOWER}-before" not in container_ids(fleet)
    back = orc("roll", "two", "--rollback", timeout=60)
    assert back.status == 0, back.text
    assert_serves(fleet, smaller)
    assert FOLLOWER not in container_ids(fleet)


def test_a_replica_that_could_not_be_put_aside_goes_on_serving(
    fleet: Fleet, orc: Orc, words: tuple[str, ...], old: dict[str, str]
) -> None:
    # A name that is somebody else's is in the way of the one to be put aside.
    fleet.host("node02").docker("create", "--name", f"{FOLLOWER}-before", fleet.fast_image)
    try:
        rolled = orc("roll", *words, "--set", "env.MARK=new", timeout=60)
        assert rolled.status == 2, rolled.text
        assert "rolled until then: none" in rolled.text
        assert_serves(fleet, old)
    finally:
        fleet.host("node02").docker("rm", "-f", f"{FOLLOWER}-before")


def test_a_host_that_goes_away_does_not_hold_up_the_way_back_of_others(
    fleet: Fleet, orc: Orc
) -> None:
    words = (*TINY, "--name", "one", "--image", fleet.fast_image)
    up = orc("up", *words)
    assert up.status == 0, up.text
    old = container_ids(fleet)
    other = fleet.host("node02")
    orc = impatient(orc)
    process = orc.start("roll", *words, FAILS)
    orc.wait_for_output("is stopped and kept aside")
    fleet.link_down(other)
    try:
        process.wait(200)
    finally:
        fleet.link_up(other)
    assert_serves(fleet, old)


@pytest.mark.parametrize("way", ["--resume", "--rollback"])
def test_a_group_of_which_a_host_goes_away_is_not_put_back_by_half(
    fleet: Fleet, orc: Orc, words: tuple[str, ...], old: dict[str, str], way: str
) -> None:
    other = fleet.host("node02")
    new = ("--set", "env.MARK=new")
    process = impatient(orc).start("roll", *words, *new)
    orc.wait_for_output(f"{HEAD} is stopped and kept aside")
    fleet.link_down(other)
    try:
        process.wait(200)
    finally:
        fleet.link_up(other)
    said = orc.output()
    assert process.returncode == 4, said
    assert "replica 0 does not go back to what ran before: rank 1 on node02 is not known" in said
    assert "when node02 can be reached again" in said and "orc roll two --rollback" in said
    assert "go on, when the cause is mended: the same command with --resume" in said
    assert "runs with the spec before" not in said and "run what they ran before" not in said
    change = json.loads(orc("history", "--json").out.splitlines()[-1])
    assert change["result"] == "unreachable" and change["put_back"] == []
    states = {c.id: c.state for host in fleet.hosts for c in fleet.containers(host)}
    assert states[old[HEAD]] == states[old[FOLLOWER]] == "exited"
    assert container_ids(fleet)[f"{HEAD}-before"] == old[HEAD]

    if way == "--rollback":
        back = orc("roll", "two", way, timeout=100)
        assert back.status == 0, back.text
        assert_serves(fleet, old)
    else:
        rolled = orc("roll", *words, *new, way, timeout=100)
        assert rolled.status == 0, rolled.text
        now = container_ids(fleet)
        assert now[HEAD] != old[HEAD] and now[FOLLOWER] != old[FOLLOWER]
        assert complete(f"http://{fleet.host('node01').addresses[0]}:8000").status_code == 200
