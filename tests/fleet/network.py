"""Bridges, network namespaces and the cables between them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tests.fleet import names
from tests.fleet.commands import FleetError, run


@dataclass(frozen=True)
class Link:
    """One interface of a host: eth0 is the first, and so on."""

    bridge: int
    subnet: int
    number: int

    @property
    def address(self) -> str:
        return f"{subnet_prefix(self.subnet)}.{self.number}"


def subnet_prefix(subnet: int) -> str:
    return f"10.90.{subnet}"


def control_address(subnet: int) -> str:
    """The bridge's own address, which the control machine owns."""
    return f"{subnet_prefix(subnet)}.1"


def free_subnets(count: int, taken: set[int]) -> list[int]:
    """The first `count` numbers S for which 10.90.S.0/24 is neither taken nor routed here."""
    routes = run(["ip", "-4", "route", "show", "table", "all"]).stdout.split()
    free = [
        subnet
        for subnet in range(256)
        if subnet not in taken
        and not any(word.startswith(f"{subnet_prefix(subnet)}.") for word in routes)
    ]
    if len(free) < count:
        raise FleetError(f"{count} subnets of 10.90.0.0/16 are needed, {len(free)} are free")
    return free[:count]


def make_bridge(name: str, address: str | None) -> None:
    """Without an address the control machine has no way onto the bridge."""
    _ip("link", "add", name, "type", "bridge")
    _ip("link", "set", name, "addrgenmode", "none")
    if address:
        _ip("address", "add", f"{address}/24", "dev", name)
    _ip("link", "set", name, "up")


def make_namespace(name: str) -> None:
    _ip("netns", "add", name)


def connect(namespace: str, interface: str, cable: str, bridge: str, address: str) -> None:
    """Put an interface with this address into a namespace and its cable's end into a bridge."""
    _ip("link", "add", cable, "type", "veth", "peer", "name", interface, "netns", namespace)
    _ip("link", "set", cable, "addrgenmode", "none")
    _ip("link", "set", cable, "master", bridge, "up")
    _ip("-n", namespace, "address", "add", f"{address}/24", "dev", interface)
    _ip("-n", namespace, "link", "set", interface, "up")


def set_link(cable: str, *, up: bool) -> None:
    _ip("link", "set", cable, "up" if up else "down")


def namespace_path(name: str) -> Path:
    return Path("/run/netns") / name


def namespaces(fleet: str) -> list[str]:
    found = Path("/run/netns").glob(f"orc-fleet-{fleet}-*")
    return sorted(path.name for path in found)


def interfaces(fleet: str) -> list[str]:
    """The control machine's interfaces that belong to a fleet: bridges and cables."""
    shown = json.loads(run(["ip", "-json", "link", "show"]).stdout)
    return [link["ifname"] for link in shown if link["ifname"].startswith(f"orc-{fleet}-")]


def fleets_by_name() -> set[str]:
    """The ids in the names of namespaces and interfaces, whether or not there is a record."""
    shown = json.loads(run(["ip", "-json", "link", "show"]).stdout)
    found = [names.INTERFACE.match(link["ifname"]) for link in shown]
    found += [names.NETWORK_NAMESPACE.match(path.name) for path in Path("/run/netns").glob("*")]
    return {match.group(1) for match in found if match}


def remove_network(fleet: str) -> None:
    for namespace in namespaces(fleet):
        _ip("netns", "delete", namespace)
    for interface in interfaces(fleet):
        # A cable goes with its namespace, a moment later: gone already is as good.
        run(["ip", "link", "delete", interface], check=False)


def _ip(*words: str) -> None:
    run(["ip", *words])
