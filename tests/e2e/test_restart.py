"""`orc restart`: the same containers once more, by their labels alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import TINY, Orc, container_ids, impatient
from tests.fleet import Fleet

pytestmark = pytest.mark.fleet


@pytest.fixture(autouse=True)
def empty(fleet: Fleet) -> Iterator[None]:
    fleet.clear()
    for host in fleet.hosts:
        host.run(["rm", "-rf", "/var/tmp/orc"])
    yield
    fleet.clear()


def started(fleet: Fleet) -> dict[str, str]:
    """When each container was started, by its name."""
    moments = {}
    for host in fleet.hosts:
        for name in (container.name for container in fleet.containers(host)):
            moments[name] = host.docker("inspect", "-f", "{{.State.StartedAt}}", name)
    return moments


def test_a_group_over_two_hosts_is_restarted_whole_from_anywhere(
    fleet: Fleet, orc: Orc, tmp_path: Path
) -> None:
    words = (
        *(*TINY, "--strategy", "multi_node_tp", "--nodes", "2", "--name", "two"),
        *("--image", fleet.fast_image, "--set", "env.HF_TOKEN=hf_hidden123"),
    )
    up = orc("up", *words)
    assert up.status == 0, up.text
    ids, before = container_ids(fleet), started(fleet)
    restart = orc("restart", directory=tmp_path)
    assert restart.status == 0, restart.text
    assert "two is restarted and healthy" in restart.text
    assert container_ids(fleet) == ids
    after = started(fleet)
    assert all(after[name] > before[name] for name in before)
    token = fleet.host("node01").docker("exec", "orc-two-r0-n0", "printenv", "HF_TOKEN")
    assert token == "hf_hidden123"
    assert "two is unchanged and healthy" in orc("up", *words).text
    change = json.loads(orc("history", "--json").out.splitlines()[-1])
    (group,) = change["groups"].values()
    assert change["playbook"] == "restart" and change["state"] == "done"
    assert group["before"] == group["after"] is not None
    assert change["healthy_seconds"]["0"] > 0

    fleet.host("node02").docker("stop", "-t", "1", "orc-two-r0-n1")
    assert orc("status").status == 2
    assert orc("restart", "two").status == 0
    assert orc("status").status == 0

    fleet.host("node02").docker("rm", "-f", "orc-two-r0-n1")
    untouched = started(fleet)
    refused = orc("restart", "two")
    assert refused.status == 2
    assert "replica 0 cannot be restarted: rank 1 was not seen" in refused.text
    assert "orc up" in refused.text
    assert started(fleet) == untouched


def test_one_replica_is_restarted_and_then_everything_with_the_router_last(
    fleet: Fleet, orc: Orc
) -> None:
    words = (*TINY, "--name", "pair", "--replicas", "2", "--image", fleet.fast_image)
    router = ("--set", f"router.image={fleet.image}", "--set", "router.policy=round_robin")
    up = orc("up", *words, *router)
    assert up.status == 0, up.text
    before = started(fleet)
    one = orc("restart", "pair", "--replica", "1")
    assert one.status == 0, one.text
    after = started(fleet)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"orc-pair-r1-n0"}
    missing = orc("restart", "pair", "--replica", "7")
    assert missing.status == 2 and "pair has no replica 7" in missing.text
    check = orc("restart", "pair", "--check")
    assert check.status == 0 and "would restart orc-pair-router" in check.text
    assert started(fleet) == after
    everything = orc("restart", "pair")
    assert everything.status == 0, everything.text
    last = started(fleet)
    assert all(last[name] > after[name] for name in after)
    assert max(last, key=lambda name: last[name]) == "orc-pair-router"
    assert orc("status").status == 0


def test_nothing_to_restart_is_said(fleet: Fleet, orc: Orc) -> None:
    nothing = orc("restart")
    assert nothing.status == 2 and "nothing is deployed" in nothing.text
    unknown = orc("restart", "nobody", "--timeout", "soon")
    assert unknown.status == 3 and "--timeout soon" in unknown.text


def test_a_server_that_wants_another_key_is_not_stopped_for_it(fleet: Fleet, orc: Orc) -> None:
    words = (*TINY, "--name", "keyed", "--image", fleet.fast_image)
    up = orc("up", *words, "--set", "env.VLLM_API_KEY=key-12345")
    assert up.status == 0, up.text
    before = started(fleet)
    for command in (("restart", "keyed"), ("roll", "keyed", "--yes")):
        refused = orc(*command)
        assert refused.status == 2 and "set VLLM_API_KEY" in refused.text
        assert "nothing was stopped" in refused.text
    assert started(fleet) == before
    status = orc("status", "keyed")
    assert status.status == 0 and "no completion could be asked for" in status.text
    assert orc("status", "keyed", VLLM_API_KEY="key-12345").status == 0
    assert orc("restart", "keyed", VLLM_API_KEY="key-12345").status == 0


def test_a_host_that_goes_away_meanwhile_leaves_no_doubt_about_the_others(
    fleet: Fleet, orc: Orc
) -> None:
    words = (*TINY, "--name", "pair", "--replicas", "2", "--image", fleet.fast_image)
    router = ("--set", f"router.image={fleet.image}", "--set", "router.policy=round_robin")
    up = orc("up", *words, *router)
    assert up.status == 0, up.text
    places = {c.name: host for host in fleet.hosts for c in fleet.containers(host)}
    near = places["orc-pair-router"]
    far, *_ = (host for host in fleet.hosts if host.name != near.name)
    process = impatient(orc).start("restart", "pair")
    orc.wait_for_output("stopping orc-pair-router")
    fleet.link_down(far)
    try:
        process.wait(200)
        said = orc.output()
    finally:
        fleet.link_up(far)
    assert process.returncode == 4, said
    assert "router is stopped" in said, said
    assert f"is not known ({far.name} does not answer)" in said, said
    assert f"when {far.name} answers again: orc restart pair again" in said, said
    whole = orc("restart", "pair")
    assert whole.status == 0, whole.text
    assert orc("status").status == 0


def test_a_group_of_which_a_host_does_not_answer_is_not_restarted(fleet: Fleet, orc: Orc) -> None:
    words = (*TINY, "--strategy", "multi_node_tp", "--nodes", "2", "--name", "two")
    up = orc("up", *words, "--image", fleet.fast_image)
    assert up.status == 0, up.text
    untouched = started(fleet)
    far = fleet.host("node02")
    fleet.link_down(far)
    try:
        refused = impatient(orc)("restart", "two")
    finally:
        fleet.link_up(far)
    assert refused.status == 4, refused.text
    assert "replica 0 cannot be restarted: rank 1 was not seen" in refused.text
    assert "orc restart two again when they answer" in refused.text
    assert started(fleet) == untouched
