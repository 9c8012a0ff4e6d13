"""A deployment that `orc up -v` brought up, with what it said and what its workers logged."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import httpx

from orchestrator.health.rank_lines import RANK_LINE
from tests.e2e.conftest import Orc, Outcome, container_ids, vllm_processes
from tests.fleet import Fleet

START_SECONDS = 900  # a start takes 20 to 40 s on two free cores, and far more on busy ones


@dataclass(frozen=True)
class Deployed:
    fleet: Fleet
    orc: Orc
    name: str
    words: tuple[str, ...]
    up: Outcome

    def again(self) -> Outcome:
        """The same `orc up` once more."""
        return self.orc("up", *self.words, timeout=START_SECONDS)

    def status(self) -> Mapping[int, str]:
        """The health of every group, by its number, as `orc status` says.

        On a machine busy with other tests a completion may truly take more than the five seconds
        that `orc status` gives it: it is asked again, for a minute, while a group is `slow`.
        """
        deadline = time.monotonic() + 60
        while True:
            (deployment,) = self.orc("status", self.name, "--json").json()["deployments"]
            health = {group["replica"]: group["health"] for group in deployment["replicas"]}
            if "slow" not in health.values() or time.monotonic() > deadline:
                return health

    def roles(self) -> dict[str, str]:
        """The role of every container, by its name."""
        return {
            container.name: container.labels["orc.role"]
            for host in self.fleet.hosts
            for container in self.fleet.containers(host)
            if container.labels.get("orc.deployment") == self.name
        }

    def rank_lines(self, host: str, container: str) -> list[str]:
        """What the workers of a container logged: `DP rank 0, PP rank 1, ...`."""
        log = self.fleet.host(host).run(["sh", "-c", f"docker logs {container} 2>&1"]).stdout
        lines = (line.partition(RANK_LINE)[2] for line in log.splitlines() if RANK_LINE in line)
        return sorted(line.strip().partition(", EPLB")[0] for line in lines)

    def log(self, host: str, container: str) -> str:
        return self.fleet.host(host).run(["sh", "-c", f"docker logs {container} 2>&1"]).stdout

    def compared(self) -> dict[str, str]:
        """What `orc up -v` said of the ranks, by host and in the order of nodes."""
        return {
            event["message"].partition(" ")[0]: event["kind"]
            for event in self.up.events()
            if event.get("task") == "compare_ranks" and event["kind"] != "task"
        }


@contextmanager
def deployed(fleet: Fleet, orc: Orc, name: str, *selection: str) -> Iterator[Deployed]:
    """Bring a deployment up, and down again at the end, leaving nothing of it."""
    words = (*selection, "--name", name, "--image", fleet.image)
    up = orc("up", *words, "-v", "--json", timeout=START_SECONDS)
    try:
        assert up.status == 0, up.text
        one = Deployed(fleet, orc, name, words, up)
        nodes = orc("plan", *words, "--json").json()["nodes"]
        assert one.compared() == {node["name"]: "ok" for node in nodes}, up.text
        yield one
    except BaseException:
        orc("down", name, "--yes")
        raise
    down = orc("down", name, "--yes")
    assert down.status == 0, down.text
    left = [c for c in container_ids(fleet) if c.startswith(f"orc-{name}-")]
    assert left == [], down.text


def nothing_runs(fleet: Fleet) -> bool:
    return container_ids(fleet) == {} and vllm_processes(fleet) == []


def complete(
    url: str, model: str = "/models/tiny-llama", prompt: str = "Hello", **headers: str
) -> httpx.Response:
    """A completion of four tokens."""
    body = {"model": model, "prompt": prompt, "max_tokens": 4, "temperature": 0}
    return httpx.post(f"{url}/v1/completions", json=body, headers=headers, timeout=60)
