"""`orc watch`: one group, one fate; with a stand-in for vLLM. With real vLLM: test_watch.py."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import TINY, Orc, container_ids, impatient
from tests.e2e.watching import QUICK, listening, started, watching
from tests.fleet import Fleet

pytestmark = pytest.mark.fleet

HEAD, FOLLOWER = "orc-two-r0-n0", "orc-two-r0-n1"
SUPERVISED = "two replica 0: is supervised"
RESTARTED = "two replica 0: started again, all ranks together"
HEALTHY = "two replica 0: healthy"


@pytest.fixture(autouse=True)
def empty(fleet: Fleet) -> Iterator[None]:
    """Nothing runs, nothing is broken, and nothing is remembered of other tests."""
    fleet.clear()
    for host in fleet.hosts:
        host.run(["rm", "-rf", "/var/tmp/orc"])
    yield
    fleet.clear()
    assert listening(fleet) == set()


def selection(fleet: Fleet, name: str, *more: str) -> tuple[str, ...]:
    return (
        *(*TINY, "--strategy", "multi_node_tp", "--nodes", "2", "--name", name),
        *("--image", fleet.fast_image, *more),
    )


@pytest.fixture
def two(fleet: Fleet, orc: Orc) -> str:
    """A group of two ranks on two hosts, of the stand-in."""
    up = orc("up", *selection(fleet, "two"))
    assert up.status == 0, up.text
    return "two"


def test_a_host_that_is_cut_off_is_waited_for_and_nothing_is_touched(
    fleet: Fleet, orc: Orc, two: str, tmp_path: Path
) -> None:
    before = started(fleet)
    with watching(impatient(orc), tmp_path, two, *QUICK) as watch:
        watch.wait_for(HEALTHY)
        fleet.link_down("node02")
        watch.wait_for("that is no dead rank, so orc waits until it is back")
        fleet.link_up("node02")
        watch.wait_for("node02 answers again")
        watch.mark()
        assert not watch.said("failed")
    assert started(fleet) == before
    assert orc("status", two).status == 0


def test_a_name_that_is_not_there_yet_is_waited_for_and_the_nearest_one_said(
    orc: Orc, two: str, tmp_path: Path
) -> None:
    with watching(orc, tmp_path, "twoo", *QUICK) as watch:
        watch.wait_for("nothing of twoo is there yet; waiting for it; did you mean 'two'?")


@pytest.mark.parametrize("crash", [True, False], ids=["killed", "stopped"])
def test_a_docker_that_is_gone_is_waited_for_and_then_the_group_restarted(
    fleet: Fleet, orc: Orc, two: str, tmp_path: Path, crash: bool
) -> None:
    """Killed, it leaves its containers running and ends them when it comes back (without
    live-restore); stopped, it ends them first."""
    ids = container_ids(fleet)
    with watching(orc, tmp_path, two, *QUICK) as watch:
        watch.wait_for(HEALTHY)
        fleet.stop_dockerd("node02", crash=crash)
        watch.wait_for("its docker does not answer")
        watch.mark()
        fleet.start_dockerd("node02")
        watch.wait_for("node02 answers again")
        watch.wait_for(RESTARTED)
        watch.wait_for(HEALTHY)
    assert container_ids(fleet) == ids
    assert orc("status", two).status == 0


def test_completions_that_fail_restart_the_group_with_its_cause_in_the_history(
    fleet: Fleet, orc: Orc, two: str, tmp_path: Path
) -> None:
    with watching(orc, tmp_path, two, *QUICK) as watch:
        watch.wait_for(HEALTHY)
        watch.mark()
        fleet.host("node01").docker("exec", HEAD, "touch", "/tmp/broken")
        failed = watch.wait_for("two replica 0: failed: a completion answers 500")
        assert "(3 times in a row)" in failed["message"]
        assert failed["replica"] == 0 and failed["data"]["deployment"] == "two"
        watch.wait_for(HEALTHY)
        change = json.loads(orc("history", two, "--json").out.splitlines()[-1])
        assert change["playbook"] == "watch" and "answers 500" in change["cause"]
    (change,) = [json.loads(line) for line in orc("history", two, "--json").out.splitlines()][-1:]
    assert change["state"] == "done" and change["healthy_seconds"]["0"] > 0
    assert orc("status", two).status == 0


def test_a_group_that_will_not_live_is_given_up_and_kept_while_others_go_on(
    fleet: Fleet, orc: Orc, two: str, tmp_path: Path
) -> None:
    assert orc("up", *selection(fleet, "other")).status == 0
    with watching(orc, tmp_path, *QUICK, "--budget", "2") as watch:
        watch.wait_for(HEALTHY)
        watch.wait_for("other replica 0: healthy")
        fleet.host("node02").docker(
            "exec", FOLLOWER, "sh", "-c", "echo CUDA out of memory >/tmp/fail"
        )
        fleet.host("node02").docker("kill", FOLLOWER)
        given_up = watch.wait_for("two replica 0: given up", seconds=150)
        assert given_up["kind"] == "failed" and "2 times within an hour" in given_up["message"]
        assert watch.said("a GPU ran out of memory")
        assert len(watch.said(RESTARTED)) == 2
        kept = {c.name: c.state for host in fleet.hosts for c in fleet.containers(host)}
        assert (kept[HEAD], kept[FOLLOWER]) == ("exited", "exited")
        assert "CUDA out of memory" in orc("logs", two).out
        watch.mark()
        fleet.host("node01").docker("kill", "orc-other-r0-n0")
        watch.wait_for("other replica 0: started again")
        watch.wait_for("other replica 0: healthy")
        assert not watch.said("two replica 0")
        # A new watch knows of the restarts of this one.
    with watching(orc, tmp_path, two, *QUICK, "--budget", "2") as watch:
        watch.wait_for("two replica 0: given up")
        assert not watch.said(RESTARTED)


def test_whoever_changes_a_deployment_is_left_alone_and_what_is_removed_is_not_restarted(
    fleet: Fleet, orc: Orc, two: str, tmp_path: Path
) -> None:
    slow = ("--set", "env.STANDIN_LOAD_SECONDS=8")
    with watching(orc, tmp_path, two, *QUICK) as watch:
        watch.wait_for(HEALTHY)
        up = orc("up", *selection(fleet, two, *slow), "--replace")
        assert up.status == 0, up.text
        watch.wait_for("stands aside: it is being changed by root@")
        watch.wait_for("supervised again")
        watch.wait_for(HEALTHY, count=2)
        assert "one up" and not watch.said("failed")
        restart = orc("restart", two)
        assert restart.status == 0, restart.text
        down = orc("down", two)
        assert down.status == 0, down.text
        watch.wait_for("its containers were removed")
        assert not watch.said(RESTARTED)
        assert container_ids(fleet) == {}
        assert orc("up", *selection(fleet, two)).status == 0
        watch.wait_for(SUPERVISED, count=2)
        assert watch.end() == 0


def test_what_ended_while_nobody_watched_is_restarted_as_after_a_reboot(
    fleet: Fleet, orc: Orc, two: str, tmp_path: Path
) -> None:
    for host, name in zip(fleet.hosts, (HEAD, FOLLOWER), strict=True):
        host.docker("kill", name)
    with watching(orc, tmp_path, *QUICK) as watch:
        watch.wait_for(RESTARTED)
        watch.wait_for(HEALTHY)
    assert orc("status", two).status == 0


def test_there_is_one_watch_and_its_lease_ends_with_it(
    fleet: Fleet, orc: Orc, two: str, tmp_path: Path
) -> None:
    with watching(orc, tmp_path, two, *QUICK) as watch:
        watch.wait_for(HEALTHY)
        second = orc("watch", two)
        assert second.status == 2
        assert "two is watched by root@" in second.text
        assert f"pid {watch.process.pid}" in second.text
        assert "two is watched by root@" in orc("lock", "status").out
        assert watch.end(signal.SIGINT) == 130
    assert orc("lock", "status").out == "nothing is being changed or watched\n"
    with watching(orc, tmp_path, two, *QUICK) as watch:
        watch.wait_for(HEALTHY)
        watch.process.kill()
        watch.process.wait(10)
    with watching(orc, tmp_path, two, *QUICK) as watch:
        watch.wait_for(HEALTHY)  # the lease of a process that is gone is taken over
        assert watch.end(signal.SIGTERM) == 0
    assert orc("lock", "status").out == "nothing is being changed or watched\n"


def test_a_router_is_a_group_of_its_own(fleet: Fleet, orc: Orc, tmp_path: Path) -> None:
    words = (*TINY, "--name", "pair", "--replicas", "2", "--image", fleet.fast_image)
    router = ("--set", f"router.image={fleet.image}", "--set", "router.policy=round_robin")
    up = orc("up", *words, *router)
    assert up.status == 0, up.text
    with watching(orc, tmp_path, "pair", *QUICK) as watch:
        watch.wait_for("pair router: healthy")
        before = started(fleet)
        fleet.host("node01").docker("stop", "-t", "1", "orc-pair-router")
        watch.wait_for("pair router: started again")
        watch.mark()
        watch.wait_for("pair router: healthy")
    after = started(fleet)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"orc-pair-router"}


def test_the_unit_runs_the_same_watch_with_everything_it_needs(fleet: Fleet, orc: Orc) -> None:
    unit = orc("watch", "two", "--budget", "3", "--print-unit").out
    (line,) = [line for line in unit.splitlines() if line.startswith("ExecStart=")]
    assert line.endswith(f" -m orchestrator watch two --budget 3 -i {fleet.inventory}")
    assert "Restart=always" in unit and "WantedBy=multi-user.target" in unit
