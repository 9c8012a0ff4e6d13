"""A rolling restart of prefill/decode pools, whose router cannot put a worker back.

With a stand-in for vLLM that starts in a blink, behind the real vllm-router.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import TINY, Orc, container_ids
from tests.e2e.load import Load
from tests.fleet import Fleet


@pytest.fixture
def four(fleet_of: Callable[[int], Fleet]) -> Iterator[Fleet]:
    fleet = fleet_of(4)
    fleet.clear()
    yield fleet
    fleet.clear()


def test_two_prefill_and_two_decode_engines_are_rolled_without_a_lost_request(
    four: Fleet, tmp_path: Path
) -> None:
    orc = Orc(four, tmp_path)
    words = (
        *(*TINY, "--name", "pools", "--strategy", "pd_cluster", "--replicas", "2"),
        *("--image", four.fast_image, "--set", f"router.image={four.image}"),
    )
    up = orc("up", *words, "--json")
    assert up.status == 0, up.text
    before = container_ids(four)
    assert len(before) == 5
    with Load(up.events()[-1]["data"]["router"], "/models/tiny-llama") as load:
        load.wait_for(20)
        rolled = orc("roll", *words, "--set", "env.MARK=new", "--json")
        load.wait_for(20)
        assert rolled.status == 0, rolled.text
        assert rolled.events()[-1]["data"]["rolled"] == [0, 1]
        again = orc("roll", "pools", "--json")
        load.wait_for(20)
        assert again.status == 0, again.text
    assert load.failures == []
    now = container_ids(four)
    assert now["orc-pools-router"] == before["orc-pools-router"]
    assert all(now[name] != before[name] for name in before if "router" not in name)
    status = orc("status")
    assert status.status == 0, status.text
