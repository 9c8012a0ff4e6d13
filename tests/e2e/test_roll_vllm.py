"""Real vLLM, two replicas behind a real vllm-router, rolled under a steady load of completions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e.conftest import TINY, Orc, container_ids
from tests.e2e.deployed import START_SECONDS
from tests.e2e.load import Load
from tests.fleet import Fleet

# A file that the engines read when they start; only the hosts have it, or do not.
LOGGING = '{"version": 1, "disable_existing_loggers": false}'


@pytest.fixture
def orc(fleet: Fleet, tmp_path: Path) -> Iterator[Orc]:
    """Orc with an inventory whose hosts mount a directory of their own."""
    fleet.clear()
    inventory = yaml.safe_load(fleet.inventory.read_text())
    inventory["all"]["vars"]["orc_volumes"].append("/srv/orc-test:/srv/orc-test:ro")
    path = tmp_path / "inventory.yml"
    path.write_text(yaml.safe_dump(inventory))
    for host in fleet.hosts:
        host.run(["rm", "-rf", "/srv/orc-test"])
    yield Orc(fleet, tmp_path, {"ORC_INVENTORY": str(path)})
    fleet.clear()


@pytest.mark.vllm
@pytest.mark.timeout(2 * START_SECONDS)
def test_a_roll_loses_no_request_not_even_one_whose_canary_cannot_start(
    fleet: Fleet, orc: Orc
) -> None:
    words: tuple[str, ...] = (*TINY, "--name", "rolled", "--replicas", "2")
    words = (*words, "--image", fleet.image, "--set", "router.policy=round_robin")
    up = orc("up", *words, "--json", timeout=START_SECONDS)
    assert up.status == 0, up.text
    before = container_ids(fleet)
    new = (*words, "--set", "env.VLLM_LOGGING_CONFIG_PATH=/srv/orc-test/logging.json")
    url = up.events()[-1]["data"]["router"]
    # Two clients with pauses: what is to be seen is loss, and two cores have to start engines.
    with Load(url, "/models/tiny-llama", clients=2, tokens=8, pause=0.5) as load:
        load.wait_for(10)
        failed = orc("roll", *new, timeout=START_SECONDS)
        assert failed.status == 2, failed.text
        assert "logging.json" in failed.text  # the first cause
        now = container_ids(fleet)
        assert {name: now[name] for name in before} == before
        load.wait_for(10)
        for host in fleet.hosts:  # the cause is gone
            host.run(["sh", "-c", f"echo '{LOGGING}' >/srv/orc-test/logging.json"])
        resumed = orc("roll", *new, "--resume", "--json", timeout=START_SECONDS)
        assert resumed.status == 0, resumed.text
        assert resumed.events()[-1]["data"]["rolled"] == [0, 1]
        load.wait_for(10)
    assert load.failures == []
    assert load.requests > 50
    now = container_ids(fleet)
    assert all(now[f"orc-rolled-r{k}-n0"] != before[f"orc-rolled-r{k}-n0"] for k in (0, 1))
