"""A fleet leaves nothing behind, whatever becomes of its maker, and takes nothing else with it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet import Fleet, names
from tests.fleet.commands import run
from tests.fleet.record import records
from tests.fleet.remove import remains

# Other sessions' fleets may have to end first, which is no fault of the test.
pytestmark = [pytest.mark.usefixtures("no_fleet"), pytest.mark.timeout(1800)]

STRANGER = f"orc-fleet-stranger-{os.getpid()}"
MAKE_AND_STAY = "import time; from tests.fleet import Fleet; Fleet.up(1); time.sleep(600)"
HOW_FAR = {
    "a network": "node01",
    "sshd": "node01/run/sshd.pid",
    "dockerd": "node01/run/docker.sock",
    "a registry": "registry-data",
}


def python(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-u", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=Path(__file__).parents[2],
    )


def fleet_of(maker: subprocess.Popen[str], has: str) -> str:
    """Wait until the fleet that a process makes has a file; return the fleet's id."""
    deadline = time.monotonic() + 1200
    while time.monotonic() < deadline:
        for record in records()[0]:
            mine = record.owner is not None and record.owner.pid == maker.pid
            if mine and (record.directory / has).exists():
                return record.fleet
        assert maker.poll() is None, maker.communicate()[0]
        time.sleep(0.005)
    raise AssertionError(f"no {has} after 1200 s")


def down(fleet: str) -> str:
    """By id, since another's kept fleet is not this test's to end."""
    return run([sys.executable, "-m", "tests.fleet", "down", fleet]).stdout


def kill(maker: subprocess.Popen[str]) -> None:
    maker.send_signal(signal.SIGKILL)
    maker.wait()


@pytest.fixture(autouse=True)
def one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ORC_FLEET_SEVERAL", raising=False)


@pytest.fixture
def strangers() -> Iterator[list[subprocess.Popen[bytes]]]:
    """What looks like a fleet's and is not: a namespace and processes of other names."""
    run(["ip", "netns", "add", STRANGER])
    inside = subprocess.Popen(["nsenter", f"--net=/run/netns/{STRANGER}", "sleep", "infinity"])
    registry = subprocess.Popen(["bash", "-c", "exec -a docker-registry sleep infinity"])
    processes = [inside, registry]
    yield processes
    for process in processes:
        process.kill()
        process.wait()
    run(["ip", "netns", "delete", STRANGER])


def test_down_leaves_no_process_namespace_mount_or_file_and_no_stranger_harmed(
    strangers: list[subprocess.Popen[bytes]],
) -> None:
    fleet = Fleet.up(2)
    host = fleet.hosts[0]
    words = ["--network=host", "--volume=/usr:/usr:ro", "--entrypoint=sleep", fleet.image, "600"]
    host.docker("run", "--detach", *words)
    assert fleet.processes(host)
    # Somebody reads a log of the fleet's meanwhile.
    strangers.append(subprocess.Popen(["tail", "-f", fleet.files.directory / "registry.log"]))
    assert len(remains(fleet.id)) > 10
    fleet.down()
    assert remains(fleet.id) == []
    mounts = Path("/proc/self/mounts").read_text()
    assert str(fleet.files.directory) not in mounts
    assert names.cgroup(fleet.id) not in mounts
    assert [process.poll() for process in strangers] == [None, None, None]
    assert Path(f"/run/netns/{STRANGER}").exists()


@pytest.mark.parametrize("has", HOW_FAR.values(), ids=HOW_FAR.keys())
def test_the_next_up_removes_what_a_killed_one_left(has: str) -> None:
    maker = python("-m", "tests.fleet", "up", "--hosts", "2")
    crashed = fleet_of(maker, has)
    kill(maker)
    assert remains(crashed) != []
    fleet = Fleet.up(1)
    try:
        assert remains(crashed) == []
        assert fleet.id != crashed
    finally:
        fleet.down()


def test_down_removes_a_crashed_fleet_that_lost_even_its_record() -> None:
    maker = python("-c", MAKE_AND_STAY)
    crashed = fleet_of(maker, "registry-data/docker")
    kill(maker)
    (names.directory(crashed) / "record.json").unlink()
    said = down(crashed)
    assert f"fleet: {crashed} is down" in said
    assert remains(crashed) == []


def test_down_leaves_a_fleet_alone_whose_maker_still_runs() -> None:
    fleet = Fleet.up(1)
    try:
        said = down(fleet.id)
        assert f"left alone, since fleet {fleet.id} belongs to process {os.getpid()}" in said
        assert fleet.hosts[0].run(["hostname"]).stdout.strip() == "node01"
    finally:
        fleet.down()


def test_a_second_fleet_waits_until_the_first_one_is_gone() -> None:
    first = Fleet.up(1)
    second = python("-c", MAKE_AND_STAY)
    try:
        assert second.stdout is not None
        said = second.stdout.readline()
        assert f"waiting, since fleet {first.id} belongs to process {os.getpid()}" in said
        first.down()
        fleet = fleet_of(second, "registry-data")
    finally:
        kill(second)
        first.down()
    down(fleet)
    assert remains(fleet) == []


def test_a_kept_fleet_outlives_its_maker_and_down_ends_it() -> None:
    said = run([sys.executable, "-m", "tests.fleet", "up", "--hosts", "1"], timeout=None).stdout
    [made] = re.findall(r"fleet: ([0-9a-f]{4}) is up with 1 hosts", said)
    fleet = Fleet.attach(made)
    assert fleet.hosts[0].docker("version", "--format", "{{.Server.Os}}") == "linux"
    assert made in run([sys.executable, "-m", "tests.fleet", "status"]).stdout
    assert f"fleet: {made} is down" in down(made)
    assert remains(made) == []


@pytest.mark.parametrize(("ci", "outcome"), [("", "1 skipped"), ("true", "1 error")])
def test_without_root_a_test_of_the_fleet_is_skipped_but_fails_under_ci(
    ci: str, outcome: str
) -> None:
    test = f"{Path(__file__).with_name('test_fleet.py')}::test_sshd_can_be_stopped_and_started"
    # In a user namespace of its own a process is nobody, and still may read its owner's files.
    command = ["unshare", "--user", "env", f"CI={ci}", sys.executable, "-m", "pytest", "-q", test]
    said = run([*command, "-p", "no:cacheprovider"], check=False).stdout
    assert outcome in said.splitlines()[-1]
    assert "needs root" in said
