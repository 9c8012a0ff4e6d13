"""One change at a time per deployment, several deployments at once, and who did what."""

from __future__ import annotations

import itertools
import json
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.e2e.conftest import TINY, Orc, container_ids
from tests.fleet import Fleet

pytestmark = pytest.mark.fleet

WAITING = "TASK [Wait until every replica answers a completion]"
HOURS = ("--set", "env.STANDIN_LOAD_SECONDS=3600")
SLOW = ("--set", "env.STANDIN_LOAD_SECONDS=20")  # other runs come in between, on a busy machine too


@pytest.fixture(autouse=True)
def empty(fleet: Fleet) -> Iterator[None]:
    """Nothing runs, and nothing is remembered of other tests."""
    fleet.clear()
    for host in fleet.hosts:
        host.run(["rm", "-rf", "/var/tmp/orc"])
    yield
    fleet.clear()


def selection(fleet: Fleet, name: str, *more: str) -> tuple[str, ...]:
    return (
        *(*TINY, "--strategy", "multi_node_tp", "--nodes", "2", "--name", name),
        *("--image", fleet.fast_image, *more),
    )


def locked(fleet: Fleet) -> dict[str, list[str]]:
    """The locks on each host, past orc."""
    listing = "ls /var/tmp/orc/locks 2>/dev/null || true"
    return {host.name: host.run(["sh", "-c", listing]).stdout.split() for host in fleet.hosts}


NOWHERE: dict[str, list[str]] = {"node01": [], "node02": []}


def test_of_two_up_at_once_the_second_is_refused_naming_the_first(fleet: Fleet, orc: Orc) -> None:
    first = orc.start("up", *selection(fleet, "one", *HOURS))
    orc.wait_for_output(WAITING)
    assert locked(fleet) == {"node01": ["one"], "node02": ["one"]}
    second = orc("up", *selection(fleet, "one", *HOURS))
    assert second.status == 2, second.text
    assert "one is being changed by root@" in second.text
    assert f"pid {first.pid}, since " in second.text
    assert "orc up --recipe orc/tiny-llama" in second.text and "--lock-timeout" in second.text
    down = orc("down", "one", "--yes")
    assert down.status == 2 and f"pid {first.pid}" in down.text
    status = orc("lock", "status")
    assert "one is changed by root@" in status.out and "on node01, node02" in status.out
    assert "goes on" in orc("history", "one").out
    first.send_signal(signal.SIGINT)
    assert first.wait(20) == 130, orc.output()
    assert locked(fleet) == NOWHERE
    assert orc("lock", "status").out == "nothing is being changed or watched\n"


def test_with_a_timeout_the_second_waits_and_finds_what_the_first_did(
    fleet: Fleet, orc: Orc
) -> None:
    first = orc.start("up", *selection(fleet, "one", *SLOW))
    orc.wait_for_output(WAITING)
    second = orc("up", *selection(fleet, "one", *SLOW), "--lock-timeout", "2m")
    assert second.status == 0, second.text
    assert "waiting for the lock of one, held by root@" in second.text
    assert "one is unchanged and healthy" in second.text
    assert first.wait(5) == 0
    late = orc("up", *selection(fleet, "one", *SLOW), "--lock-timeout", "soon")
    assert late.status == 3 and "--lock-timeout soon" in late.text


def test_two_deployments_at_once_on_the_same_hosts_both_succeed(fleet: Fleet, orc: Orc) -> None:
    names = ["red", "green", "blue"]
    with ThreadPoolExecutor() as pool:
        ups = list(pool.map(lambda name: orc("up", *selection(fleet, name)), names))
    assert [up.status for up in ups] == [0, 0, 0], "\n".join(up.text for up in ups)
    urls = {endpoint["url"] for endpoint in orc("probe", "--json").json()["endpoints"]}
    assert len(urls) == 3
    assert orc("status").status == 0
    assert locked(fleet) == NOWHERE


def test_a_killed_up_is_taken_over_on_the_same_machine(fleet: Fleet, orc: Orc) -> None:
    first = orc.start("up", *selection(fleet, "one", *SLOW))
    orc.wait_for_output(WAITING)
    first.send_signal(signal.SIGKILL)
    first.wait(10)
    assert locked(fleet) == {"node01": ["one"], "node02": ["one"]}
    assert "interrupted?" not in orc("history", "one").out  # its lock is there still
    again = orc("up", *selection(fleet, "one", *SLOW))
    assert again.status == 0, again.text
    assert "took over the lock of a run that is gone: root@" in again.text
    assert f"pid {first.pid}" in again.text
    assert locked(fleet) == NOWHERE
    assert "interrupted?" in orc("history", "one").out


def test_an_interrupted_up_releases_its_lock(fleet: Fleet, orc: Orc) -> None:
    first = orc.start("up", *selection(fleet, "one", *HOURS))
    orc.wait_for_output(WAITING)
    first.send_signal(signal.SIGINT)
    assert first.wait(20) == 130
    assert locked(fleet) == NOWHERE
    (change,) = [json.loads(line) for line in orc("history", "one", "--json").out.splitlines()][-1:]
    assert change["state"] == "interrupted" and change["exit_status"] == 130


def foreign_lock(fleet: Fleet, name: str) -> None:
    """A lock as a run on another machine would have left it."""
    owner = {"id": "f" * 32, "user": "ann", "machine": "desk", "machine_id": "1", "pid": 7}
    owner |= {"boot": "b pid:[1]", "started": "1", "command": "orc roll", "since": 1.0}
    text = "f" * 32 + "\n" + json.dumps(owner) + "\n"
    for host in fleet.hosts:
        place = f"/var/tmp/orc/locks/{name}"
        host.run(["sh", "-c", f"mkdir -p {place} && cat >{place}/owner"], stdin=text)


def test_the_lock_of_another_machine_is_broken_only_on_request(fleet: Fleet, orc: Orc) -> None:
    assert orc("up", *selection(fleet, "one")).status == 0
    foreign_lock(fleet, "one")
    refused = orc("down", "one", "--yes")
    assert refused.status == 2
    assert "one is being changed by ann@desk, pid 7" in refused.text
    assert "orc lock release one" in refused.text
    assert "one is not stopped: nothing was touched" in refused.text
    released = orc("lock", "release", "one")
    assert released.status == 0
    assert "ann@desk" in released.out and "released on node01, node02" in released.out
    assert "there is no lock of one" in orc("lock", "release", "one").out
    foreign_lock(fleet, "one")
    down = orc("down", "one", "--yes", "--break-lock")
    assert down.status == 0, down.text
    assert "broke the lock of ann@desk" in down.text
    assert container_ids(fleet) == {} and locked(fleet) == NOWHERE


def test_a_run_whose_lock_is_taken_away_says_so(fleet: Fleet, orc: Orc) -> None:
    first = orc.start("up", *selection(fleet, "one", *HOURS))
    orc.wait_for_output(WAITING)
    assert orc("lock", "release", "one", "--yes").status == 0
    orc.wait_for_output("the lock of one was released by somebody")
    first.send_signal(signal.SIGINT)
    assert first.wait(20) == 130


def test_check_takes_no_lock_and_writes_no_history(fleet: Fleet, orc: Orc) -> None:
    foreign_lock(fleet, "dry")
    assert orc("up", *selection(fleet, "dry"), "--check").status == 0
    assert orc("check", *selection(fleet, "dry")).status == 0
    assert orc("lock", "release", "dry").status == 0
    assert "nothing of dry was changed yet" in orc("history", "dry").out


def test_history_tells_who_did_what_from_any_machine(
    fleet: Fleet, orc: Orc, tmp_path: Path
) -> None:
    words = selection(fleet, "told")
    assert orc("up", *words, "--set", "env.HF_TOKEN=hf_neverSeen123").status == 0
    assert orc("up", *words, "--set", "env.HF_TOKEN=hf_neverSeen123").status == 0  # changes nothing
    changed = orc("up", *words, "--set", "env.A=1", "--replace")
    assert changed.status == 0, changed.text
    failed = orc("up", *words, "--set", "env.STANDIN_FAIL=CUDA out of memory", "--replace")
    assert failed.status == 2
    assert orc("down", "told", "--yes").status == 0
    elsewhere = str(tmp_path / "other-state")
    seen = orc("history", "told", "--json", XDG_STATE_HOME=elsewhere)
    assert "hf_never" not in seen.text
    changes = [json.loads(line) for line in seen.out.splitlines()]
    groups = [change["groups"]["0"] for change in changes]
    assert [change["state"] for change in changes] == ["done", "done", "failed", "done"]
    assert [change["playbook"] for change in changes] == ["launch", "launch", "launch", "stop"]
    assert [spec["before"] is None for spec in groups] == [True, False, False, False]
    assert [spec["after"] is None for spec in groups] == [False, False, False, True]
    for before, after in itertools.pairwise(groups):
        assert before["after"] == after["before"]
    assert changes[0]["healthy_seconds"]["0"] > 0 and not changes[2]["healthy_seconds"]
    own = (orc.directory / "state" / "orc" / "history.jsonl").read_text()
    assert "hf_never" not in own and own.count('"told"') == 8
    for host in fleet.hosts:
        kept = host.run(["sh", "-c", "cat /var/tmp/orc/history/told.*.jsonl"]).stdout
        assert len(kept.splitlines()) == 8 and "hf_never" not in kept


def test_a_full_disk_keeps_nobody_from_stopping_what_runs_there(fleet: Fleet, orc: Orc) -> None:
    assert orc("up", *selection(fleet, "full")).status == 0
    fleet.host("node01").run(["sh", "-c", "mv /var/tmp/orc /var/tmp/kept; touch /var/tmp/orc"])
    try:
        down = orc("down", "full", "--yes")
    finally:
        fleet.host("node01").run(["sh", "-c", "rm /var/tmp/orc; mv /var/tmp/kept /var/tmp/orc"])
    assert "no lock can be held there" in down.text
    assert down.status == 0 and container_ids(fleet) == {}, down.text


def test_a_link_in_the_place_of_the_directory_is_warned_of_and_not_followed(
    fleet: Fleet, orc: Orc
) -> None:
    host = fleet.host("node01")
    host.run(["rm", "-rf", "/var/tmp/orc"])
    host.run(["mkdir", "-p", "/root/private"])
    host.run(["ln", "-s", "/root/private", "/var/tmp/orc"])
    try:
        up = orc("up", *selection(fleet, "linked"))
        status, down = orc("status", "linked"), orc("down", "linked")
        why = "/var/tmp/orc is a symbolic link, which is not followed"
        assert host.run(["ls", "-A", "/root/private"]).stdout == ""
        for done in (up, down):
            assert done.status == 0, done.text
            assert f"warning: [node01] no lock can be held there: {why}" in done.text
        assert status.status == 0, status.text
    finally:
        host.run(["rm", "-rf", "/var/tmp/orc", "/root/private"])
