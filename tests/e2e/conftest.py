"""`orc` as a user runs it, in processes of its own, against the fleet."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.events.schema import check_event
from tests.fleet import Fleet
from tests.fleet.debian import install_debian_packages
from tests.fleet.environment import add_kv_transfer

ROOT = Path(__file__).parents[2]
TINY = ("--recipe", "orc/tiny-llama")


@dataclass(frozen=True)
class Outcome:
    """How a run of orc ended, and how many seconds it took."""

    status: int
    out: str
    err: str
    seconds: float

    @property
    def text(self) -> str:
        return self.out + self.err

    def json(self) -> Any:
        return json.loads(self.out)

    def events(self) -> list[dict[str, Any]]:
        """The events of `--json`, each as the schema describes it."""
        lines = self.json_lines()
        for line in lines:
            check_event(line)
        return lines

    def json_lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass(frozen=True)
class Orc:
    """Runs orc in a working directory, with only the inventory to know the fleet by."""

    fleet: Fleet
    directory: Path
    variables: Mapping[str, str] = field(default_factory=dict)

    def __call__(
        self, *words: str, timeout: float = 240, directory: Path | None = None, **variables: str
    ) -> Outcome:
        begun = time.monotonic()
        done = subprocess.run(
            self._command(words),
            cwd=directory or self.directory,
            env=self._environment(variables),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=timeout,
        )
        return Outcome(done.returncode, done.stdout, done.stderr, time.monotonic() - begun)

    def start(self, *words: str, **variables: str) -> subprocess.Popen[str]:
        """Run orc beside the test, its output in `orc.out` of the working directory."""
        with (self.directory / "orc.out").open("w") as out:
            return subprocess.Popen(
                self._command(words),
                cwd=self.directory,
                env=self._environment(variables),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                text=True,
            )

    def output(self) -> str:
        return (self.directory / "orc.out").read_text()

    def wait_for_output(self, text: str, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while text not in self.output():
            assert time.monotonic() < deadline, f"no {text!r} in:\n{self.output()}"
            time.sleep(0.1)

    def _command(self, words: tuple[str, ...]) -> list[str]:
        return [sys.executable, "-m", "orchestrator", *words]

    def _environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("ORC_", "VLLM_", "HF_"))}
        return {
            **kept,
            "PYTHONPATH": str(ROOT),
            "ORC_INVENTORY": str(self.fleet.inventory),
            "XDG_STATE_HOME": str(self.directory / "state"),
            **self.variables,
            **variables,
        }


@pytest.fixture(scope="module")
def orc(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Orc]:
    """Orc on a fleet without containers, before and after."""
    fleet.clear()
    yield Orc(fleet, tmp_path_factory.mktemp("work"))
    fleet.clear()


def impatient(orc: Orc) -> Orc:
    """The same with an inventory that gives a host up after some seconds without an answer."""
    inventory = yaml.safe_load(orc.fleet.inventory.read_text())
    options = "-o ConnectTimeout=2 -o ServerAliveInterval=1 -o ServerAliveCountMax=3"
    for scope in (inventory["all"]["vars"], *inventory["all"]["hosts"].values()):
        if arguments := scope.get("ansible_ssh_common_args"):
            scope["ansible_ssh_common_args"] = f"{arguments} {options}"
    path = orc.directory / "impatient.yml"
    path.write_text(yaml.safe_dump(inventory))
    return replace(orc, variables={**orc.variables, "ORC_INVENTORY": str(path)})


@pytest.fixture
def image(fleet: Fleet) -> tuple[str, str]:
    return ("--image", fleet.image)


def container_ids(fleet: Fleet) -> dict[str, str]:
    """Our containers by name, running or not."""
    return {
        container.name: container.id
        for host in fleet.hosts
        for container in fleet.containers(host)
        if "orc.deployment" in container.labels
    }


def vllm_processes(fleet: Fleet) -> list[str]:
    """What runs in any container of any host."""
    return [" ".join(p.command) for host in fleet.hosts for p in fleet.processes(host)]


@pytest.fixture(scope="session")
def kv_transfer(fleet_machine: None) -> None:
    """Mooncake and NIXL in the fleet's vLLM environment."""
    install_debian_packages()
    add_kv_transfer()
