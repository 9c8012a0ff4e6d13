"""A rolling restart that starts another replica on spare hosts first. With the stand-in."""

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


def test_a_surge_stands_in_for_the_only_replica_and_goes_again(four: Fleet, tmp_path: Path) -> None:
    orc = Orc(four, tmp_path)
    words = (
        *(*TINY, "--name", "surged", "--image", four.fast_image),
        *("--set", f"router.image={four.image}", "--set", "router.policy=round_robin"),
    )
    up = orc("up", *words, "--json")
    assert up.status == 0, up.text
    before = container_ids(four)
    with Load(up.events()[-1]["data"]["router"], "/models/tiny-llama") as load:
        load.wait_for(20)
        broken = orc("roll", *words, "--surge", "--set", "env.STANDIN_FAIL=boom")
        assert broken.status == 2, broken.text
        assert "there was none before" in broken.text
        assert container_ids(four)["orc-surged-r0-n0"] == before["orc-surged-r0-n0"]

        rolled = orc("roll", *words, "--surge", "--set", "env.MARK=new", "--json")
        load.wait_for(20)
        assert rolled.status == 0, rolled.text
        assert rolled.events()[-1]["data"]["rolled"] == [0]
    assert load.failures == []
    now = container_ids(four)
    assert now["orc-surged-r0-n0"] != before["orc-surged-r0-n0"]
    assert not [name for name in now if "-r1-" in name]
    assert "is unchanged" in orc("up", *words, "--set", "env.MARK=new").out


def test_a_surge_of_several_replicas_ends_without_its_own(four: Fleet, tmp_path: Path) -> None:
    """The router is not told again of the replica that was stopped: it would wait for it."""
    orc = Orc(four, tmp_path)
    words = (
        *(*TINY, "--name", "two", "--replicas", "2", "--image", four.fast_image),
        *("--set", f"router.image={four.image}", "--set", "router.policy=round_robin"),
    )
    assert orc("up", *words).status == 0
    rolled = orc("roll", *words, "--surge", "--set", "env.MARK=new", "--json")
    assert rolled.status == 0, rolled.text
    assert rolled.events()[-1]["data"]["rolled"] == [0, 1]
    assert not [name for name in container_ids(four) if "-r2-" in name]


def test_a_surge_without_a_spare_host_or_a_router_touches_nothing(
    four: Fleet, tmp_path: Path
) -> None:
    orc = Orc(four, tmp_path)
    words = (*TINY, "--name", "full", "--image", four.fast_image, "--limit", "node01")
    assert orc("up", *words).status == 0
    before = container_ids(four)
    refused = orc("roll", *words, "--surge")
    assert refused.status != 0
    assert "--surge" in refused.text or "hosts" in refused.text
    assert container_ids(four) == before
