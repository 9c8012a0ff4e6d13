"""`orc diff` on real hosts: each kind of change by hand is found, and no secret is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.conftest import TINY, Orc, impatient
from tests.fleet import Fleet

pytestmark = pytest.mark.fleet

Changed = dict[tuple[str, str], tuple[str | None, str | None]]
HEAD, WORKER = "orc-pair-r0-n0", "orc-pair-r0-n1"


@pytest.fixture(scope="module")
def words(fleet: Fleet, orc: Orc) -> Iterator[tuple[str, ...]]:
    """A deployment of two ranks that runs as planned; what selects it."""
    words = (
        *(*TINY, "--strategy", "multi_node_tp", "--nodes", "2", "--name", "pair"),
        *("--image", fleet.fast_image),
        *("--set", "env.HF_TOKEN=hf_first_secret", "--set", "env.MODE=calm"),
    )
    up = orc("up", *words)
    assert up.status == 0, up.text
    yield words


@pytest.fixture(autouse=True)
def as_planned(fleet: Fleet, orc: Orc, words: tuple[str, ...]) -> Iterator[None]:
    """Whatever a test does to it, the next one finds it as planned."""
    yield
    if orc("diff", *words).status != 0:
        fleet.clear()
        assert orc("up", *words).status == 0
        assert orc("diff", *words).status == 0


@pytest.fixture
def changed(orc: Orc, words: tuple[str, ...]) -> Callable[..., Changed]:
    def look(*more: str) -> Changed:
        """What differs, as (container, field): (planned, running)."""
        done = orc("diff", *words, *more, "--json")
        assert done.status == 2, done.text
        assert "secret" not in done.text.replace("<secret>", "")
        return {
            (node["name"], one["field"]): (one["planned"], one["running"])
            for node in done.json()["nodes"]
            for one in node["differences"]
        }

    return look


def recreate(fleet: Fleet, host: str, name: str, change: Callable[[list[str]], list[str]]) -> None:
    """Make a container anew by hand, with the same labels, as somebody would at night."""
    docker = fleet.host(host).docker
    labels = docker(
        "inspect", "--format", "{{range $k, $v := .Config.Labels}}{{$k}}={{$v}}\n{{end}}", name
    )
    env = docker("inspect", "--format", "{{range .Config.Env}}{{println .}}{{end}}", name)
    binds = docker("inspect", "--format", "{{range .HostConfig.Binds}}{{println .}}{{end}}", name)
    image = docker("inspect", "--format", "{{.Config.Image}}", name).strip()
    path = docker("inspect", "--format", "{{.Path}}", name).strip()
    args = docker("inspect", "--format", "{{range .Args}}{{println .}}{{end}}", name).split()
    options = [
        word
        for line in labels.replace("\\n", "\n").splitlines()
        if line
        for word in ("--label", line)
    ]
    options += [word for line in env.splitlines() if line for word in ("--env", line)]
    options += [word for line in binds.splitlines() if line for word in ("--volume", line)]
    command = [
        *("run", "--detach", "--name", name, "--network", "host", "--ipc", "host", "--init"),
        *("--stop-timeout", "60", *options, "--entrypoint", path, image, *args),
    ]
    docker("rm", "--force", name)
    docker(*change(command))


def test_nothing_differs_when_all_runs_as_planned(orc: Orc, words: tuple[str, ...]) -> None:
    done = orc("diff", *words)
    assert (done.status, done.out.strip()) == (0, "pair: no difference on 2 nodes")
    document = orc("diff", *words, "--json").json()
    assert document["exit_status"] == 0
    assert [node["differences"] for node in document["nodes"]] == [[], []]


def test_a_changed_plan_is_told_by_field(changed: Callable[..., Changed], fleet: Fleet) -> None:
    found = changed(
        *("--set", "args.max-model-len=128", "--set", "env.MODE=wild", "--set", "env.NEW=1"),
        *("--set", "env.HF_TOKEN=hf_second_secret", "--port", "8100"),
        *("--image", fleet.other_fast_image),
    )
    for name in (HEAD, WORKER):
        assert found[name, "argument --max-model-len"] == ("128", "256")
        assert found[name, "argument --port"] == ("8100", None)
        assert found[name, "environment MODE"] == ("wild", "calm")
        assert found[name, "environment NEW"] == ("1", None)
        assert found[name, "environment HF_TOKEN"] == ("<secret>", "<secret> (another)")
        planned, running = found[name, "image"]
        assert str(planned).startswith(fleet.other_fast_image) and "@sha256:" in str(running)
    assert found[HEAD, "ports"][0] == "master=29501,api=8100"


def test_what_docker_update_changed_is_found(fleet: Fleet, changed: Callable[..., Changed]) -> None:
    fleet.host("node01").docker("update", "--restart", "unless-stopped", HEAD)
    fleet.host("node02").docker("update", "--memory", "3g", "--memory-swap", "3g", WORKER)
    assert changed() == {
        (HEAD, "option restart"): ("no", "unless-stopped"),
        (WORKER, "option memory"): (None, "3g"),
    }


def test_a_stopped_a_paused_and_a_missing_container_are_found(
    fleet: Fleet, changed: Callable[..., Changed]
) -> None:
    fleet.host("node02").docker("pause", WORKER)
    assert changed() == {(WORKER, "state"): ("running", "paused")}
    fleet.host("node02").docker("unpause", WORKER)
    fleet.host("node02").docker("kill", WORKER)
    assert changed()[WORKER, "state"] == ("running", "exited 137 (SIGKILL)")
    fleet.host("node02").docker("rm", WORKER)
    assert changed()[WORKER, "container"] == ("running", None)


def test_a_renamed_container_and_one_too_many_are_found(
    fleet: Fleet, changed: Callable[..., Changed]
) -> None:
    fleet.host("node02").docker("rename", WORKER, "mine-now")
    fleet.host("node01").docker(
        *("run", "--detach", "--name", "stray", "--label", "orc.deployment=pair"),
        *("--label", "orc.replica=7", "--volume", "/usr:/usr:ro", "--network", "host"),
        *("--entrypoint", "sleep", fleet.fast_image, "600"),
    )
    assert changed() == {
        (WORKER, "name"): (WORKER, "mine-now"),
        ("stray", "container"): (None, "running, not in the plan"),
    }


def test_what_was_made_anew_by_hand_is_found_field_by_field(
    fleet: Fleet, orc: Orc, words: tuple[str, ...], changed: Callable[..., Changed]
) -> None:
    def change(command: list[str]) -> list[str]:
        at = command.index("--entrypoint")
        replaced = [word.replace("hf_first_secret", "hf_third_secret") for word in command[:at]]
        replaced = [word.replace("MODE=calm", "MODE=mad") for word in replaced]
        extra = ["--env", "ADDED_TOKEN=another_secret", "--volume", "/tmp:/mnt", "--shm-size", "1g"]
        extra += ["--cap-add", "IPC_LOCK", "--device", "/dev/null:/dev/nothing", "--label", "a=b"]
        return [*replaced, *extra, *command[at:], "--seed", "7"]

    recreate(fleet, "node02", WORKER, change)
    found = changed()
    assert {field: value for (name, field), value in found.items() if name == WORKER} == {
        "argument --seed": (None, "7"),
        "environment ADDED_TOKEN": (None, "<secret>"),
        "environment HF_TOKEN": ("<secret>", "<secret> (another)"),
        "environment MODE": ("calm", "mad"),
        "cap-add IPC_LOCK": (None, "set"),
        "device /dev/null:/dev/nothing:rwm": (None, "set"),
        "volume /tmp:/mnt": (None, "set"),
        "label a": (None, "b"),
    }
    shown = orc("diff", *words)
    assert "made as planned, changed since" in shown.out
    assert "environment MODE: mad -> calm" in shown.out


def test_a_host_that_cannot_be_asked_is_no_difference(
    fleet: Fleet, orc: Orc, words: tuple[str, ...]
) -> None:
    fleet.link_down("node02")
    try:
        done = impatient(orc)("diff", *words, "--json")
    finally:
        fleet.link_up("node02")
    assert done.status == 4, done.text
    assert list(done.json()["unreachable"]) == ["node02"]
    assert [node["name"] for node in done.json()["nodes"]] == [HEAD]


def test_up_shows_it_before_it_is_done(fleet: Fleet, orc: Orc, words: tuple[str, ...]) -> None:
    more = ("--set", "env.MODE=wild", "--replace", "--check", "--diff")
    shown = orc("up", *words, *more)
    assert shown.status == 0, shown.text
    assert "environment MODE: calm -> wild" in shown.out.partition("TASK")[0]
    events: list[dict[str, Any]] = orc("up", *words, *more, "--json").events()
    assert [event["kind"] for event in events].index("diff") == 0
    assert events[0]["data"]["nodes"][0]["differences"][0]["field"] == "environment MODE"
