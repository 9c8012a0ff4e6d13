"""The commands on real hosts with real containers, but with `sleep` where vLLM would be: fast."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator import Inventory
from orchestrator.deployment import LONGEST_VARIABLE
from orchestrator.health.observation import observe, run_script
from orchestrator.runtime.container import Container
from orchestrator.runtime.docker_run import run_command
from orchestrator.runtime.scripts import NOT_OURS, STILL_RUNNING, start_script, stop_script
from orchestrator.secret import Secret
from orchestrator.transport.pool import ConnectionPool
from tests.e2e.conftest import TINY, Orc, container_ids, impatient
from tests.fleet import Fleet

pytestmark = pytest.mark.fleet

SINGLE = (*TINY, "--strategy", "single_node_tp", "--replicas", "2")


@pytest.fixture(autouse=True)
def clean(fleet: Fleet) -> Iterator[None]:
    yield
    fleet.clear()


@pytest.fixture(scope="module")
def pool(fleet: Fleet) -> Iterator[ConnectionPool]:
    inventory = Inventory.load(fleet.inventory)
    with ConnectionPool(inventory.hosts.values()) as pool:
        yield pool


@pytest.fixture(scope="module", autouse=True)
def image_everywhere(fleet: Fleet) -> None:
    for host in fleet.hosts:
        host.docker("pull", "--quiet", fleet.image)


def run_container(
    fleet: Fleet,
    host: str,
    name: str,
    *command: str,
    deployment: str | None = "fast",
    rank: int = 0,
    nodes: int = 2,
) -> str:
    labels = []
    if deployment:
        values = {
            "orc.deployment": deployment,
            "orc.replica": "0",
            "orc.rank": str(rank),
            "orc.nodes": str(nodes),
            "orc.role": "worker" if rank else "head",
        }
        labels = [word for key, value in values.items() for word in ("--label", f"{key}={value}")]
    program, *arguments = command or ("sleep", "600")
    return fleet.host(host).docker(
        *("run", "--detach", "--init", "--network", "host", "--name", name, *labels),
        *("--volume", "/usr:/usr:ro", "--entrypoint", program, fleet.image, *arguments),
    )


def container(fleet: Fleet, name: str = "orc-fast-r0-n0", *command: str) -> Container:
    return Container(
        name=name,
        image=fleet.image,
        command=command or ("sleep", "600"),
        labels={"orc.deployment": "fast"},
        env_file=f".orc/{name}.env",
        brand="CPU",
        volumes=("/usr:/usr:ro",),
    )


def start(
    pool: ConnectionPool, wanted: Container, env: dict[str, str | Secret] | None = None
) -> tuple[int, str]:
    script = start_script(wanted, env or {}, "fast", run_command(wanted))
    result = run_script(pool.connection("node01"), script, timeout=60)
    return result.exit_status, result.stderr


def test_an_environment_reaches_the_container_whole_and_leaves_no_file(
    fleet: Fleet, pool: ConnectionPool
) -> None:
    env: dict[str, str | Secret] = {
        "PLAIN": "a b",
        "ODD": '"quo\'te" $HOME `id` \\ # = END_OF_ENVIRONMENT é',
        "TOKEN": Secret("hf_very_secret"),
        "EMPTY": "",
    }
    wanted = container(fleet, "orc-fast-r0-n0", "sh", "-c", "env; ls -la /proc/1/root; sleep 600")
    assert start(pool, wanted, env) == (0, "")
    time.sleep(0.5)
    seen = fleet.host("node01").docker("logs", wanted.name).splitlines()
    for name, value in env.items():
        text = value.reveal() if isinstance(value, Secret) else value
        assert f"{name}={text}" in seen
    assert fleet.host("node01").run(["ls", "-A", "/root/.orc"]).stdout == ""
    mode = fleet.host("node01").run(["stat", "-c", "%a", "/root/.orc"]).stdout.strip()
    assert mode == "700"


def test_the_longest_value_that_is_not_refused_reaches_the_container(
    fleet: Fleet, pool: ConnectionPool
) -> None:
    env: dict[str, str | Secret] = {"LONG": "x" * (LONGEST_VARIABLE - len("LONG=")), "B": "2"}
    wanted = container(fleet, "orc-fast-r0-n0", "sh", "-c", 'echo "${#LONG} $B"; sleep 600')
    assert start(pool, wanted, env) == (0, "")
    time.sleep(0.5)
    said = fleet.host("node01").docker("logs", wanted.name)
    assert said.strip() == f"{LONGEST_VARIABLE - len('LONG=')} 2"


def test_the_environment_file_goes_even_when_the_start_fails(
    fleet: Fleet, pool: ConnectionPool
) -> None:
    status, said = start(pool, replace(container(fleet), extra_args=("--gpus", "all")))
    assert status == 125 and "could not select device driver" in said
    assert fleet.host("node01").run(["ls", "-A", "/root/.orc"]).stdout == ""


def test_an_exited_container_of_ours_makes_room(fleet: Fleet, pool: ConnectionPool) -> None:
    old = run_container(fleet, "node01", "orc-fast-r0-n0", "true")
    time.sleep(0.5)
    assert start(pool, container(fleet))[0] == 0
    (new,) = fleet.containers("node01")
    assert new.id != old and new.state == "running"


def test_a_running_container_of_ours_is_left_alone(fleet: Fleet, pool: ConnectionPool) -> None:
    old = run_container(fleet, "node01", "orc-fast-r0-n0")
    status, said = start(pool, container(fleet))
    assert (status, "running already" in said) == (STILL_RUNNING, True)
    assert [c.id for c in fleet.containers("node01")] == [old]


@pytest.mark.parametrize("deployment", [None, "other"])
@pytest.mark.parametrize("command", [("sleep", "600"), ("true",)])
def test_a_container_of_somebody_else_is_never_touched(
    fleet: Fleet, pool: ConnectionPool, deployment: str | None, command: tuple[str, ...]
) -> None:
    theirs = run_container(fleet, "node01", "orc-fast-r0-n0", *command, deployment=deployment)
    assert start(pool, container(fleet))[0] == NOT_OURS
    script = stop_script([theirs], "fast", seconds=1, remove=True)
    assert run_script(pool.connection("node01"), script).exit_status == NOT_OURS
    assert [c.id for c in fleet.containers("node01")] == [theirs]


def test_one_look_sees_every_container_of_every_host(fleet: Fleet, pool: ConnectionPool) -> None:
    run_container(fleet, "node01", "orc-fast-r0-n0")
    run_container(fleet, "node02", "orc-fast-r0-n1", "sh", "-c", "exit 7", rank=1)
    run_container(fleet, "node02", "orc-like-ours", deployment=None)
    run_container(fleet, "node02", "postgres", deployment=None)
    time.sleep(0.5)
    seen = observe(pool, ["node01", "node02"])
    assert [(s.name, s.status, s.exit_code) for s in seen.containers("fast")] == [
        ("orc-fast-r0-n0", "running", 0),
        ("orc-fast-r0-n1", "exited", 7),
    ]
    assert seen.deployments() == ["fast"]
    named = [s.name for host in seen.hosts for s in host.containers if not s.deployment]
    assert named == ["orc-like-ours"]
    ages = [s.up_seconds for s in seen.containers() if s.running]
    assert ages and ages[0] is not None and 0 < ages[0] < 30


def test_a_deployment_that_is_named_and_not_there_is_a_failure(fleet: Fleet, orc: Orc) -> None:
    run_container(fleet, "node01", "orc-fast-r0-n0")
    for words in (("status", "fats"), ("logs", "fats"), ("logs", "fast", "--rank", "9")):
        assert orc(*words).status == 2, words
    assert "did you mean 'fast'?" in orc("status", "fats").text


def test_status_names_the_dead_rank_and_logs_show_what_it_said(fleet: Fleet, orc: Orc) -> None:
    run_container(fleet, "node01", "orc-fast-r0-n0", "sh", "-c", "echo head; sleep 600")
    run_container(
        fleet, "node02", "orc-fast-r0-n1", "sh", "-c", "sleep 0.3; echo boom >&2; exit 9", rank=1
    )
    time.sleep(1)
    status = orc("status")
    assert status.status == 2
    assert "rank 1 on node02: exited 9" in status.text
    document = orc("status", "--json").json()
    assert document["deployments"][0]["replicas"][0]["health"] == "failed"
    logs = orc("logs", "fast", "--timestamps")
    assert logs.status == 0
    first, second = logs.out.splitlines()
    assert first.startswith("node01 r0 n0 | 20") and first.endswith("head")
    assert second.startswith("node02 r0 n1 | 20") and second.endswith("boom")
    only = orc("logs", "--rank", "1", "--json").json_lines()
    assert [(line["rank"], line["text"]) for line in only] == [(1, "boom")]


def test_down_stops_all_ranks_and_only_ours_and_twice_is_fine(
    fleet: Fleet, orc: Orc, tmp_path: Path
) -> None:
    run_container(fleet, "node01", "orc-fast-r0-n0")
    run_container(fleet, "node02", "orc-fast-r0-n1", rank=1)
    other = run_container(fleet, "node02", "orc-other-r0-n0", deployment="other")
    theirs = run_container(fleet, "node02", "orc-like-ours", deployment=None)
    which = orc("down", directory=tmp_path)
    assert which.status == 3 and "fast, other" in which.text
    would = orc("down", "fast", "--check", directory=tmp_path)
    assert would.status == 0 and "would stop and remove orc-fast-r0-n1" in would.text
    assert len(container_ids(fleet)) == 3
    down = orc("down", "fast", directory=tmp_path)
    assert down.status == 0 and "fast is stopped: 2 containers are gone" in down.text
    assert container_ids(fleet) == {"orc-other-r0-n0": other}
    again = orc("down", "fast", directory=tmp_path)
    assert again.status == 0 and "nothing to stop" in again.text
    assert orc("down", "--all", directory=tmp_path).status == 0
    assert [c.id for c in fleet.containers("node02")] == [theirs]


def test_down_is_honest_about_a_host_that_it_cannot_reach(fleet: Fleet, orc: Orc) -> None:
    run_container(fleet, "node01", "orc-fast-r0-n0")
    run_container(fleet, "node02", "orc-fast-r0-n1", rank=1)
    fleet.link_down("node02")
    orc = impatient(orc)
    status = orc("status")
    assert status.status == 4 and "node02: unknown" in status.text
    down = orc("down", "fast")
    assert down.status == 4
    assert "1 container is gone; unknown on node02" in down.text
    assert "is stopped" not in down.text
    fleet.link_up("node02")
    assert orc("status").status == 2  # rank 0 is missing now
    assert orc("down", "fast").status == 0
    assert container_ids(fleet) == {}


def test_a_host_whose_dockerd_is_down_is_unknown_and_not_empty(fleet: Fleet, orc: Orc) -> None:
    run_container(fleet, "node01", "orc-fast-r0-n0", nodes=1)
    fleet.stop_dockerd("node02")
    status = orc("status")
    assert status.status == 2 and "node02: unknown: docker:" in status.text
    down = orc("down", "fast")
    assert down.status == 2 and "node02" in down.text
    fleet.start_dockerd("node02")


def test_up_refuses_a_container_of_somebody_else(
    fleet: Fleet, orc: Orc, image: tuple[str, str]
) -> None:
    theirs = run_container(fleet, "node02", "orc-tiny-llama-r1-n0", deployment=None)
    up = orc("up", *SINGLE, *image, "--replace")
    assert up.status == 2
    assert "node02: a container named orc-tiny-llama-r1-n0 exists" in up.text
    assert [c.id for c in fleet.containers("node02")] == [theirs]
    assert fleet.containers("node01") == []


def test_up_refuses_a_port_that_is_held_naming_its_owner(
    fleet: Fleet, orc: Orc, image: tuple[str, str]
) -> None:
    run_container(
        fleet, "node02", "web", "/usr/bin/python3", "-m", "http.server", "8000", deployment=None
    )
    time.sleep(1)
    up = orc("up", *SINGLE, *image, "--port", "8000")
    assert up.status == 1
    assert "port 8000 (API of replica 1) is taken on node02 by python3/" in up.text
    assert container_ids(fleet) == {}


@pytest.mark.parametrize("policy", ["always", "missing", "never"])
def test_an_image_that_does_not_exist_starts_nothing(fleet: Fleet, orc: Orc, policy: str) -> None:
    up = orc("up", *SINGLE, "--image", f"{fleet.registry}/vllm-cpu:none", "--pull", policy)
    assert up.status == 2
    assert "failed: [node01]" in up.text and "failed: [node02]" in up.text
    assert container_ids(fleet) == {}


def bare(fleet: Fleet, orc: Orc) -> str:
    """The inventory without volumes: the fleet's image holds nothing of its own."""
    lines = fleet.inventory.read_text().splitlines()
    path = orc.directory / "bare.yml"
    text = "\n".join(line for line in lines if not line.strip().startswith("- /"))
    path.write_text(text.replace("orc_volumes:", "orc_volumes: []"))
    return str(path)


def test_the_same_tag_with_another_digest_on_one_host_is_one_digest_everywhere(
    fleet: Fleet, orc: Orc, image: tuple[str, str]
) -> None:
    """gpustack#2691: without asking the registry, two hosts would run two images."""
    host = fleet.host("node02")
    host.docker("pull", "--quiet", fleet.other_image)
    host.docker("tag", fleet.other_image, fleet.image)
    never = orc("up", *SINGLE, *image, "--pull", "never")
    assert never.status == 2
    assert "is not the same digest on every host" in never.text
    assert never.text.count("@sha256:") >= 2
    assert container_ids(fleet) == {}
    # Nothing but the pull is wanted, so the containers are given nothing to run.
    missing = orc("up", *SINGLE, *image, "--pull", "missing", ORC_INVENTORY=bare(fleet, orc))
    assert "differs; pulling" in missing.text
    images = {c.image for h in fleet.hosts for c in fleet.containers(h)}
    assert len(images) == 1 and "@sha256:" in images.pop()
    host.docker("pull", "--quiet", fleet.image)


def test_check_says_that_the_hosts_are_fine_and_starts_nothing(
    fleet: Fleet, orc: Orc, image: tuple[str, str]
) -> None:
    check = orc("check", *SINGLE, *image)
    assert check.status == 0, check.text
    assert "the hosts are fine for this plan" in check.text
    would = orc("up", *SINGLE, *image, "--check")
    assert would.status == 0
    assert "would start orc-tiny-llama-r1-n0" in would.text
    assert container_ids(fleet) == {}


def test_a_program_that_the_image_lacks_fails_at_once_with_the_cause(
    fleet: Fleet, orc: Orc
) -> None:
    up = orc("up", *SINGLE, "--image", fleet.image, ORC_INVENTORY=bare(fleet, orc))
    assert up.status == 2
    assert "the image has no such program" in up.text
    states = {c.name: c.state for h in fleet.hosts for c in fleet.containers(h)}
    assert "running" not in states.values()


def test_events_of_a_refused_start_are_json_lines(
    fleet: Fleet, orc: Orc, image: tuple[str, str]
) -> None:
    run_container(fleet, "node02", "orc-tiny-llama-r1-n0", deployment=None)
    up = orc("up", *SINGLE, *image, "--json")
    events = up.events()
    assert [e["kind"] for e in events][:2] == ["play", "task"]
    assert events[-1]["kind"] == "done"
    assert events[-1]["data"]["exit_status"] == up.status == 2
    assert json.dumps(events)  # all of it
