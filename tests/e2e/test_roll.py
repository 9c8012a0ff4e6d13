"""A rolling restart under load: no request is lost, and a failed one costs nothing.

With a stand-in for vLLM that starts in a blink, behind the real vllm-router; the same with real
vLLM is in test_roll_vllm.py.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.conftest import TINY, Orc, container_ids
from tests.e2e.load import Load
from tests.fleet import Fleet

MODEL = "/models/tiny-llama"
FAILS = "--set=env.STANDIN_FAIL=RuntimeError: boom"


@pytest.fixture(autouse=True)
def clean(fleet: Fleet) -> Iterator[None]:
    fleet.clear()
    yield
    fleet.clear()


@pytest.fixture
def words(fleet: Fleet) -> tuple[str, ...]:
    """Two replicas of the stand-in behind a real router."""
    return (
        *(*TINY, "--name", "pair", "--replicas", "2", "--image", fleet.fast_image),
        *("--set", f"router.image={fleet.image}", "--set", "router.policy=round_robin"),
    )


@pytest.fixture
def url(fleet: Fleet, orc: Orc, words: tuple[str, ...]) -> str:
    """The router of the deployment, which is up."""
    up = orc("up", *words, "--json")
    assert up.status == 0, up.text
    return str(up.events()[-1]["data"]["router"])


def environment(fleet: Fleet, name: str) -> dict[str, str]:
    """The environment of a container, wherever it is."""
    for host in fleet.hosts:
        if name in [container.name for container in fleet.containers(host)]:
            shown = host.docker("inspect", "--format", '{{join .Config.Env "\\n"}}', name)
            pairs = (line.partition("=") for line in shown.splitlines())
            return {key: value for key, _, value in pairs}
    raise AssertionError(f"no container {name}")


def test_a_roll_to_another_environment_loses_no_request_and_can_be_rolled_back(
    fleet: Fleet, orc: Orc, words: tuple[str, ...], url: str
) -> None:
    before = container_ids(fleet)
    with Load(url, MODEL) as load:
        load.wait_for(20)
        rolled = orc("roll", *words, "--set", "env.MARK=new", "--json")
        load.wait_for(20)
        assert rolled.status == 0, rolled.text
        assert rolled.events()[-1]["data"]["rolled"] == [0, 1]
        now = container_ids(fleet)
        for name in ("orc-pair-r0-n0", "orc-pair-r1-n0"):
            assert now[name] != before[name]
            assert now[f"{name}-before"] == before[name]
            assert environment(fleet, name)["MARK"] == "new"
        assert now["orc-pair-router"] == before["orc-pair-router"]
        assert "is unchanged" in orc("up", *words, "--set", "env.MARK=new").out

        back = orc("roll", "--rollback", "pair")
        load.wait_for(20)
        assert back.status == 0, back.text
        now = container_ids(fleet)
        assert {now[name] for name in before} == set(before.values())
    assert load.failures == []
    assert "is unchanged" in orc("up", *words).out
    assert orc("down", "pair", "--yes").status == 0
    assert container_ids(fleet) == {}


def test_a_canary_that_cannot_start_is_put_back_and_the_others_are_not_touched(
    fleet: Fleet, orc: Orc, words: tuple[str, ...], url: str
) -> None:
    before = container_ids(fleet)
    with Load(url, MODEL) as load:
        load.wait_for(20)
        rolled = orc("roll", *words, FAILS)
        load.wait_for(20)
        assert rolled.status == 2, rolled.text
        assert "boom" in rolled.text
        now = container_ids(fleet)
        assert {name: now[name] for name in before} == before  # the very same containers
        history = orc("history", "pair").out.splitlines()[-2:]
        assert "replica 0: " in history[0] and "failed; put back to " in history[0]
        assert "replica 1: " in history[1] and "not begun" in history[1]
        assert_serving(orc, {0: "healthy", 1: "healthy"})

        again = orc("roll", *words, "--set", "env.MARK=new", "--resume")
        load.wait_for(20)
        assert again.status == 0, again.text
        assert "done already" not in again.text  # what was put back is rolled
        assert environment(fleet, "orc-pair-r1-n0")["MARK"] == "new"
    assert load.failures == []


def test_a_roll_to_another_image_leaves_the_router_alone(fleet: Fleet, orc: Orc) -> None:
    """It has the engines' image, for want of another; that it restarts has to be asked for."""
    same = (*TINY, "--name", "pair", "--replicas", "2", "--set", "router.policy=round_robin")
    up = orc("up", *same, "--image", fleet.fast_image, "--json")
    assert up.status == 0, up.text
    router = container_ids(fleet)["orc-pair-router"]
    new = (*same, "--image", f"{fleet.fast_image}-other")
    with Load(str(up.events()[-1]["data"]["router"]), MODEL) as load:
        load.wait_for(20)
        rolled = orc("roll", *new)
        load.wait_for(20)
        assert rolled.status == 0, rolled.text
        assert "the router keeps running from" in rolled.text
    assert load.failures == []
    assert container_ids(fleet)["orc-pair-router"] == router
    assert orc("diff", *new).status == 0
    assert "is unchanged" in orc("up", *new).out
    policy = orc("roll", *new, "--set", "router.policy=random")
    assert policy.status == 0, policy.text
    assert "no request gets through while the router restarts" in policy.text
    assert container_ids(fleet)["orc-pair-router"] != router
    assert orc("up", *new, "--set", "router.policy=random", "--replace").status == 0
    assert orc("down", "pair", "--yes").status == 0


def test_a_roll_that_was_killed_is_gone_on_with(
    fleet: Fleet, orc: Orc, words: tuple[str, ...], url: str
) -> None:
    new = (*words, "--set", "env.MARK=new")
    with Load(url, MODEL) as load:
        load.wait_for(20)
        process = orc.start("roll", *new)
        orc.wait_for_output("started orc-pair-r0-n0")
        process.send_signal(signal.SIGKILL)
        process.wait()
        resumed = orc("roll", *new, "--resume", "--json")
        load.wait_for(20)
        assert resumed.status == 0, resumed.text
        for name in ("orc-pair-r0-n0", "orc-pair-r1-n0"):
            assert environment(fleet, name)["MARK"] == "new"
        assert_serving(orc, {0: "healthy", 1: "healthy"})
        assert_both_get_requests(load, fleet)
    assert load.failures == []


def test_up_puts_back_what_a_killed_roll_took_out_of_the_router(
    fleet: Fleet, orc: Orc, words: tuple[str, ...], url: str
) -> None:
    before = container_ids(fleet)
    with Load(url, MODEL) as load:
        load.wait_for(20)
        process = orc.start("roll", *words, "--set", "env.MARK=new")
        orc.wait_for_output("has no request left")
        process.send_signal(signal.SIGKILL)
        process.wait()
        if container_ids(fleet)["orc-pair-r0-n0"] == before["orc-pair-r0-n0"]:
            assert "the router sends no requests to" in orc("status").out
        up = orc("up", *words)
        assert up.status == 0, up.text
        assert_both_get_requests(load, fleet)
    assert load.failures == []


def test_without_a_selection_the_same_containers_are_restarted(
    fleet: Fleet, orc: Orc, words: tuple[str, ...], url: str
) -> None:
    before = container_ids(fleet)
    with Load(url, MODEL) as load:
        load.wait_for(20)
        rolled = orc("roll", "pair", "--json")
        load.wait_for(20)
        assert rolled.status == 0, rolled.text
        assert rolled.events()[-1]["data"]["rolled"] == [0, 1]
    assert load.failures == []
    assert container_ids(fleet) == before
    for host in fleet.hosts:
        (name,) = [
            c.name for c in fleet.containers(host) if "-r" in c.name and "router" not in c.name
        ]
        started = host.docker("inspect", "--format", "{{.State.StartedAt}} {{.Created}}", name)
        assert started.split()[0] > started.split()[1][:19] + "Z"


def test_a_replica_that_does_not_serve_is_rolled_first(
    fleet: Fleet, orc: Orc, words: tuple[str, ...], url: str
) -> None:
    fleet.host("node02").docker("stop", "-t", "1", "orc-pair-r1-n0")
    with Load(url, MODEL) as load:
        load.wait_for(20)
        broken = len(load.failures)  # of the moment when it was stopped by hand
        rolled = orc("roll", *words, "--set", "env.MARK=new")
        load.wait_for(20)
        assert rolled.status == 0, rolled.text
    assert load.failures[broken:] == []
    order = [rolled.out.index(f"started orc-pair-r{replica}-n0") for replica in (1, 0)]
    assert order == sorted(order)


def test_a_single_replica_is_told_to_be_down_meanwhile(fleet: Fleet, orc: Orc) -> None:
    words = (*TINY, "--name", "one", "--image", fleet.fast_image)
    assert orc("up", *words).status == 0
    rolled = orc("roll", *words, "--set", "env.MARK=new")
    assert rolled.status == 0, rolled.text
    assert "one has one replica: it does not serve while it restarts, about" in rolled.out


def test_check_says_what_a_roll_would_do_and_does_nothing(
    fleet: Fleet, orc: Orc, words: tuple[str, ...], url: str
) -> None:
    before = container_ids(fleet)
    said = orc("roll", *words, "--set", "env.MARK=new", "--check")
    assert said.status == 0, said.text
    assert "would stop orc-pair-r0-n0 and keep it aside" in said.out
    assert "would start orc-pair-r1-n0" in said.out
    assert container_ids(fleet) == before


def test_there_is_nothing_to_roll_back_before_a_roll(
    fleet: Fleet, orc: Orc, words: tuple[str, ...], url: str
) -> None:
    back = orc("roll", "--rollback")
    assert back.status == 2
    assert "no spec before to go back to" in back.text


def assert_serving(orc: Orc, wanted: dict[int, str]) -> None:
    (deployment,) = orc("status", "pair", "--json").json()["deployments"]
    health: dict[int, Any] = {g["replica"]: g["health"] for g in deployment["replicas"]}
    assert {number: health[number] for number in wanted} == wanted


def assert_both_get_requests(load: Load, fleet: Fleet) -> None:
    """The stand-in logs each completion."""

    def asked(host: str, name: str) -> int:
        log = fleet.host(host).run(["sh", "-c", f"docker logs {name} 2>&1"]).stdout
        return log.count("/v1/completions")

    replicas = (("node01", "orc-pair-r0-n0"), ("node02", "orc-pair-r1-n0"))
    before = [asked(*replica) for replica in replicas]
    load.wait_for(20)
    assert all(asked(*one) > count + 2 for one, count in zip(replicas, before, strict=True))


def test_an_interrupted_roll_says_how_to_go_on(orc: Orc, words: tuple[str, ...], url: str) -> None:
    assert url
    roll = orc.start("roll", *words, "--set", "env.MARK=new", "--pause", "5m")
    orc.wait_for_output("Let them run for a while")
    roll.send_signal(signal.SIGINT)
    assert roll.wait(20) == 130
    said = orc.output()
    assert "the roll was interrupted" in said and "--resume" in said
    assert "Traceback" not in said
