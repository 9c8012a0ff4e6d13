"""Tensor parallel over two hosts, with real vLLM: one deployment from start to end."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import TINY, Orc, Outcome, container_ids, vllm_processes
from tests.fleet import Fleet

# Alone, since some of them say how long a thing may take.
pytestmark = [pytest.mark.fleet, pytest.mark.vllm, pytest.mark.alone]

SECRET = "hf_NobodyMaySeeThis0123456789"
NAMES = ["orc-tp-r0-n0", "orc-tp-r0-n1"]


def selection(fleet: Fleet) -> tuple[str, ...]:
    return (
        *(*TINY, "--strategy", "multi_node_tp", "--nodes", "2", "--name", "tp"),
        *("--image", fleet.image, "--set", "env.HF_TOKEN={{ lookup('env', 'MY_TOKEN') }}"),
        # The only ones that start as vLLM does on a CPU; all others start faster.
        *("--set", "env.VLLM_WORKER_MULTIPROC_METHOD=spawn"),
    )


class Watcher(threading.Thread):
    """Looks at every process's arguments while orc works, as `ps` of anybody would."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.seen: set[bytes] = set()
        self.stopped = threading.Event()

    def run(self) -> None:
        while not self.stopped.is_set():
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    self.seen.add(path.read_bytes())
                except OSError:
                    continue
            time.sleep(0.05)


@pytest.fixture(scope="module")
def watcher() -> Watcher:
    return Watcher()


@pytest.fixture(scope="module")
def up(fleet: Fleet, orc: Orc, watcher: Watcher) -> Iterator[Outcome]:
    watcher.start()
    outcome = orc("up", *selection(fleet), "--json", MY_TOKEN=SECRET)
    watcher.stopped.set()
    watcher.join()
    yield outcome


def test_up_ends_with_a_healthy_replica_over_two_hosts(fleet: Fleet, orc: Orc, up: Outcome) -> None:
    assert up.status == 0, up.text
    last = up.events()[-1]
    assert last["kind"] == "done"
    assert last["data"]["endpoints"] == [
        {
            "replica": 0,
            "host": "node01",
            "url": f"http://{fleet.hosts[0].address}:8000",
            "model": "/models/tiny-llama",
        }
    ]
    assert sorted(container_ids(fleet)) == NAMES


def test_both_hosts_run_the_same_digest(fleet: Fleet, up: Outcome) -> None:
    images = {c.image for host in fleet.hosts for c in fleet.containers(host)}
    assert len(images) == 1
    assert "@sha256:" in images.pop()


def test_the_ranks_are_as_planned(fleet: Fleet, orc: Orc, up: Outcome) -> None:
    """vLLM's workers say themselves which rank they have."""
    for rank in (0, 1):
        said = orc("logs", "tp", "--rank", str(rank), "--tail", "1000").out
        assert f"rank {rank} in world size 2 is assigned as" in said
        assert f"TP rank {rank}" in said


def test_probe_gets_a_completion_with_its_times(orc: Orc, up: Outcome) -> None:
    probe = orc("probe", "--json")
    assert probe.status == 0, probe.text
    (endpoint,) = probe.json()["endpoints"]
    assert endpoint["healthy"] and endpoint["text"]
    assert 0 < endpoint["first_token_seconds"] <= endpoint["total_seconds"]


def test_status_is_healthy_from_any_directory(orc: Orc, up: Outcome, tmp_path: Path) -> None:
    status = orc("status", "tp", directory=tmp_path)
    assert status.status == 0, status.text
    assert "replica 0  healthy" in status.text
    assert "rank 1  worker    node02" in status.text


def test_up_again_changes_nothing_and_says_so_in_under_three_seconds(
    fleet: Fleet, orc: Orc, up: Outcome
) -> None:
    before = container_ids(fleet)
    # The best of some: the machine that runs the tests runs both hosts and vLLM as well.
    runs: list[Outcome] = []
    while len(runs) < 6 and (not runs or runs[-1].seconds >= 3.0):
        again = orc("up", *selection(fleet), MY_TOKEN=SECRET)
        runs.append(again)
        assert again.status == 0, again.text
        assert "tp is unchanged and healthy" in again.text
        assert "changed=0" in again.text and "pulling" not in again.text
    assert container_ids(fleet) == before
    assert min(again.seconds for again in runs) < 3.0


def test_another_spec_under_the_same_name_is_refused_naming_the_flag(
    fleet: Fleet, orc: Orc, up: Outcome
) -> None:
    before = container_ids(fleet)
    other = orc("up", *selection(fleet), "--set", "args.max-num-seqs=4", MY_TOKEN=SECRET)
    assert other.status == 2
    assert "--max-num-seqs (not set) -> 4" in other.text
    assert container_ids(fleet) == before


def test_the_secret_is_in_the_containers_and_nowhere_that_anybody_sees(
    fleet: Fleet, orc: Orc, up: Outcome, watcher: Watcher
) -> None:
    environment = [
        fleet.host(host).docker("exec", name, "printenv", "HF_TOKEN")
        for host, name in zip(("node01", "node02"), NAMES, strict=True)
    ]
    assert environment == [SECRET, SECRET]
    places = {
        "events": up.out,
        "errors": up.err,
        "plan": orc("plan", *selection(fleet), "--json", MY_TOKEN=SECRET).text,
        "plan as text": orc("plan", *selection(fleet), MY_TOKEN=SECRET).text,
        "up again": orc("up", *selection(fleet), "-vv", MY_TOKEN=SECRET).text,
        "status": orc("status", "--json").text,
        "logs": orc("logs", "--tail", "100000").text,
        "inventory": orc("inventory", "--list", MY_TOKEN=SECRET).text,
        "ps": b"\n".join(watcher.seen).decode(errors="replace"),
        "labels": json.dumps(
            [dict(c.labels) for host in fleet.hosts for c in fleet.containers(host)]
        ),
    }
    for host in fleet.hosts:
        name = NAMES[fleet.hosts.index(host)]
        arguments = "{{.Path}} {{.Args}} {{.Config.Cmd}} {{.Config.Labels}} {{.Name}}"
        places[f"arguments on {host.name}"] = host.docker("inspect", "-f", arguments, name)
        found = host.run(["grep", "-rl", SECRET, "/root", "/tmp", "/var/log"], check=False)
        places[f"files on {host.name}"] = found.stdout
    assert "--env-file" in places["ps"]  # the watcher has seen the start itself
    assert [place for place, text in places.items() if SECRET in text] == []
    assert places["files on node01"] == places["files on node02"] == ""


def test_a_killed_follower_is_known_within_ten_seconds_with_its_reason(
    fleet: Fleet, orc: Orc, up: Outcome
) -> None:
    state = json.loads(fleet.host("node02").docker("inspect", NAMES[1]))[0]["State"]
    begun = time.monotonic()
    fleet.host("node02").docker("kill", "--signal", "KILL", NAMES[1])
    assert state["Running"]
    while (status := orc("status", "tp")).status == 0:
        assert time.monotonic() - begun < 10
    assert time.monotonic() - begun < 10
    assert status.status == 2
    assert "rank 1 on node02: exited 137 (SIGKILL)" in status.text
    assert "rank 0  head      node01           running" in status.text


def test_up_restarts_the_group_whole(fleet: Fleet, orc: Orc, up: Outcome) -> None:
    """Seen without waiting for it: --check says what would be done."""
    check = orc("up", *selection(fleet), "--check", MY_TOKEN=SECRET)
    assert check.status == 0, check.text
    # The completion that status asked for may have ended the head meanwhile.
    assert "replica 0 is restarted whole (" in check.text
    assert "rank 1 on node02: exited 137 (SIGKILL)" in check.text
    for name in NAMES:
        assert f"would stop and remove {name}" in check.text
        assert f"would start {name}" in check.text


def test_down_leaves_no_container_and_no_process_on_any_host(
    fleet: Fleet, orc: Orc, up: Outcome, tmp_path: Path
) -> None:
    assert set(container_ids(fleet)) == set(NAMES)
    down = orc("down", directory=tmp_path)
    assert down.status == 0, down.text
    assert "tp is stopped: 2 containers are gone" in down.text
    assert container_ids(fleet) == {}
    assert vllm_processes(fleet) == []
    for host in fleet.hosts:  # each sees its own processes only
        listing = host.run(["ps", "-eo", "args"]).stdout
        assert not [line for line in listing.splitlines() if "vllm serve /models/tiny" in line]
    status = orc("status", directory=tmp_path)
    assert (status.status, status.out.strip()) == (0, "nothing is deployed")
