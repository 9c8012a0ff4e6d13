"""A real Mooncake store after its start: restarted with its engines, and supervised.

With a stand-in for vLLM, which starts in a blink and uses no store. With real vLLM:
test_kv_store.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import TINY, Orc
from tests.e2e.watching import QUICK, started, watching
from tests.fleet import Fleet

pytestmark = [pytest.mark.usefixtures("kv_transfer"), pytest.mark.fleet]

MASTER = "orc-cs-kv-master"


@pytest.fixture(scope="module", autouse=True)
def store(fleet: Fleet, orc: Orc) -> Iterator[None]:
    """Two instances with a store service on each host, its master and a router."""
    up = orc(
        *("up", *TINY, "--name", "cs", "--strategy", "single_node_tp", "--image", fleet.fast_image),
        *("--set", "kv_offload=kv_store_centralized_mooncake", "--set", "instances=2"),
        *("--set", "kv_store.global_segment_size=64MB"),
        *("--set", "kv_store.local_buffer_size=64MB"),
    )
    assert up.status == 0, up.text
    yield
    fleet.clear()


def test_a_restart_begins_with_the_store_and_ends_with_the_router(fleet: Fleet, orc: Orc) -> None:
    before = started(fleet)
    restart = orc("restart", "cs")
    assert restart.status == 0, restart.text
    after = started(fleet)
    assert set(after) == set(before) and all(after[name] > before[name] for name in before)
    order = sorted(after, key=lambda name: after[name])
    kinds = [name.removeprefix("orc-cs-")[:1] for name in order]
    assert kinds == [*"kkk", *"rr", "r"] and order[-1] == "orc-cs-router"
    assert orc("status", "cs").status == 0


@pytest.mark.parametrize("name", [MASTER, "orc-cs-kv-store-n2"])
def test_a_service_of_the_store_that_ends_is_started_again(
    fleet: Fleet, orc: Orc, tmp_path: Path, name: str
) -> None:
    before = started(fleet)
    (host,) = [h for h in fleet.hosts if name in {c.name for c in fleet.containers(h)}]
    with watching(orc, tmp_path, "cs", *QUICK) as watch:
        watch.wait_for("cs replica 1: healthy")
        host.docker("kill", name)
        watch.wait_for("started again")
        watch.mark()
        watch.wait_for(": healthy")
    after = started(fleet)
    changed = {other for other in before if before[other] != after[other]}
    assert name in changed and not changed & {"orc-cs-r0-n0", "orc-cs-r1-n0", "orc-cs-router"}
    assert orc("status", "cs").status == 0
