"""A golden case: hosts and a selection in a YAML file, and what the plan must say of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from orchestrator import Catalog, Deployment, Inventory, Plan, plan
from orchestrator.documents import read_document
from orchestrator.facts.host_facts import HostFacts
from orchestrator.topology.ports import PortUse

HERE = Path(__file__).parent
CASES = sorted((HERE / "cases").glob("*.yml"))
VARIABLES = {"orc_hardware": "h200", "orc_interface": "bond0"}
KEYS = {"about", "hosts", "vars", "deploy", "beside", "facts", "busy", "held", "expect", "refused"}


@cache
def catalog() -> Catalog:
    """The recipes of the golden cases, and after them the packaged ones."""
    return Catalog.load(HERE / "catalog")


@dataclass(frozen=True)
class Case:
    """`beside`: deployments that run already on the hosts, whose ports are taken."""

    name: str
    content: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> Case:
        content = read_document(path).data
        unknown = set(content) - KEYS
        assert not unknown, f"{path.name}: unknown keys {unknown}"
        assert ("expect" in content) != ("refused" in content), f"{path.name}: one of the two"
        return cls(path.stem, content)

    @property
    def deployment(self) -> Deployment:
        return selection(self.content["deploy"])

    def plan(self, directory: Path) -> Plan:
        """Plan the case; its inventory is written into `directory`."""
        content = self.content
        inventory = inventory_of(content["hosts"], content.get("vars", {}), directory)
        facts = {host: _facts(found) for host, found in content.get("facts", {}).items()}
        busy = {host: dict(ports) for host, ports in content.get("busy", {}).items()}
        for other in content.get("beside", ()):
            running = plan(inventory, catalog(), selection(other), facts, PortUse(busy))
            for host, port in ports_of(running):
                busy.setdefault(host, {})[port] = running.name
        use = PortUse(busy, content.get("held", {}))
        return plan(inventory, catalog(), self.deployment, facts, use)


def selection(deploy: dict[str, Any]) -> Deployment:
    return Deployment.model_validate({"features": [], **deploy})


def ports_of(made: Plan) -> list[tuple[str, int]]:
    """Every (host, port) that anything of the plan binds."""
    everything = [*made.nodes, *made.services, *([made.router] if made.router else [])]
    return [(spec.host, port) for spec in everything for port in spec.ports.values()]


def inventory_of(hosts: Any, variables: dict[str, Any], directory: Path) -> Inventory:
    """`hosts`: how many there are, or the GPUs of each, or a mapping as an inventory has it.

    The first two name them node01, node02, ... with addresses 10.1.0.11, 10.1.0.12, ...
    """
    if isinstance(hosts, int):
        hosts = [None] * hosts
    if isinstance(hosts, list):
        hosts = {
            f"node{number:02}": {"ansible_host": f"192.0.2.{10 + number}"}
            | {"orc_address": f"10.1.{(10 + number) // 256}.{(10 + number) % 256}"}
            | ({"orc_gpus": list(range(count))} if count else {})
            for number, count in enumerate(hosts, start=1)
        }
    path = directory / "inventory.yml"
    content = {"all": {"vars": VARIABLES | variables, "hosts": hosts}}
    path.write_text(yaml.dump(content, Dumper=yaml.CSafeDumper))
    return Inventory.load(path)


def _facts(found: dict[str, Any]) -> HostFacts:
    addresses = tuple((name, address) for name, address in found.get("addresses", {}).items())
    return HostFacts(addresses=addresses, reached_at=found.get("reached_at"))


def numbers(text: str | int) -> list[int]:
    """`0-3` is 0, 1, 2, 3; `0*2` is 0, 0; several with spaces."""
    found: list[int] = []
    for part in str(text).split():
        if span := re.fullmatch(r"(\d+)-(\d+)", part):
            found += range(int(span[1]), int(span[2]) + 1)
        elif repeated := re.fullmatch(r"(\d+)\*(\d+)", part):
            found += [int(repeated[1])] * int(repeated[2])
        else:
            found.append(int(part))
    return found
