"""`orc watch` with real vLLM: the head, its engine process, the follower and dockerd are killed in
turn, and a host is cut off. What else it does is in test_watch_standin.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.conftest import TINY, Orc, container_ids, impatient, vllm_processes
from tests.e2e.deployed import START_SECONDS, complete
from tests.e2e.watching import QUICK, Watching, listening, started, watching
from tests.fleet import Fleet
from tests.fleet.host import Host

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.vllm,
    pytest.mark.timeout(3 * START_SECONDS, func_only=True),
]

HEAD, FOLLOWER = "orc-two-r0-n0", "orc-two-r0-n1"


def test_with_real_vllm_head_engine_follower_dockerd_and_network_in_turn(
    fleet: Fleet, orc: Orc, tmp_path: Path
) -> None:
    """Each time the group is restarted whole; the network alone kills nothing."""
    words = (
        *(*TINY, "--strategy", "multi_node_tp", "--nodes", "2", "--name", "two"),
        *("--image", fleet.image),
    )
    up = orc("up", *words, timeout=START_SECONDS)
    assert up.status == 0, up.text
    url = f"http://{fleet.hosts[0].address}:8000"
    head, follower = fleet.hosts
    with watching(impatient(orc), tmp_path, "two", *QUICK) as watch:
        watch.wait_for("two replica 0: healthy")
        kills: dict[str, Callable[[], object]] = {
            "the head": lambda: head.docker("kill", HEAD),
            "the engine process": lambda: fleet.kill(engine(fleet, head)),
            "the follower": lambda: follower.docker("kill", FOLLOWER),
            "dockerd": lambda: dockerd_dies(fleet, watch),
        }
        for kill in kills.values():
            restarted_whole(fleet, watch, kill)
            assert complete(url).status_code == 200
        watch.mark()
        before = started(fleet)
        fleet.link_down(follower)
        watch.wait_for("that is no dead rank")
        fleet.link_up(follower)
        watch.wait_for("node02 answers again")
        assert complete(url).status_code == 200
        assert not watch.said("two replica 0: failed") and started(fleet) == before
    down = orc("down", "two")
    assert down.status == 0, down.text
    assert container_ids(fleet) == {} and vllm_processes(fleet) == []
    assert listening(fleet) == set()


def engine(fleet: Fleet, host: Host) -> int:
    """The engine's process beside the API server's."""
    found = [p.pid for p in fleet.processes(host) if "EngineCore" in " ".join(p.command)]
    assert found, [p.command for p in fleet.processes(host)]
    return found[0]


def dockerd_dies(fleet: Fleet, watch: Watching) -> None:
    """Killed, and back after it was missed; it ends its containers then."""
    fleet.stop_dockerd("node02", crash=True)
    watch.wait_for("its docker does not answer", seconds=60)
    assert not watch.said("two replica 0: failed")
    fleet.start_dockerd("node02")


def restarted_whole(fleet: Fleet, watch: Watching, kill: Callable[[], object]) -> None:
    """The end state, and the time to it."""
    watch.mark()
    before, ids = started(fleet), container_ids(fleet)
    kill()
    watch.wait_for("two replica 0: failed", seconds=60)
    watch.wait_for("two replica 0: started again", seconds=120)
    watch.wait_for("two replica 0: healthy", seconds=START_SECONDS)
    after = started(fleet)
    assert container_ids(fleet) == ids
    assert all(after[name] > before[name] for name in before)
