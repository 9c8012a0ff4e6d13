"""A fleet: hosts joined by a bridge, a registry and an image, and the faults to test with."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from tests.fleet import names, network, remove
from tests.fleet.access import (
    AccessFiles,
    furnish,
    make_key,
    write_inventory,
    write_known_hosts,
    write_ssh_config,
)
from tests.fleet.commands import FleetError
from tests.fleet.debian import install_debian_packages
from tests.fleet.environment import build_environment
from tests.fleet.host import Container, Host, boot, connect
from tests.fleet.image import push_images
from tests.fleet.models import write_models
from tests.fleet.network import Link, control_address
from tests.fleet.processes import Process, find
from tests.fleet.record import HostRecord, Record, load, reserve
from tests.fleet.registry import PORT, start_registry


@dataclass(frozen=True)
class Fleet:
    """A fleet that is up. Hosts are taken by name or as `Host`."""

    record: Record
    hosts: tuple[Host, ...]

    @property
    def id(self) -> str:
        return self.record.fleet

    @property
    def files(self) -> AccessFiles:
        return AccessFiles(self.record.directory)

    @property
    def inventory(self) -> Path:
        return self.files.inventory

    @property
    def ssh_config(self) -> Path:
        return self.files.ssh_config

    @property
    def known_hosts(self) -> Path:
        return self.files.known_hosts

    @property
    def key(self) -> Path:
        return self.files.key

    @property
    def registry(self) -> str:
        """HOST:PORT of the fleet's registry."""
        return f"{control_address(self.record.subnets[0])}:{PORT}"

    @property
    def image(self) -> str:
        return self.record.images[0]

    @property
    def other_image(self) -> str:
        """The same content under another tag and digest."""
        return self.record.images[1]

    @property
    def fast_image(self) -> str:
        """A stand-in for vLLM that starts in a blink; see `standin/vllm`."""
        return self.record.images[2]

    @property
    def other_fast_image(self) -> str:
        return self.record.images[3]

    @property
    def models(self) -> Path:
        """The models' directory on the machine; the containers have it at /models."""
        return write_models()

    def host(self, name: str | Host) -> Host:
        wanted = name.name if isinstance(name, Host) else name
        for host in self.hosts:
            if host.name == wanted:
                return host
        raise FleetError(f"no host {wanted}; there are {', '.join(h.name for h in self.hosts)}")

    def containers(self, host: str | Host) -> list[Container]:
        return self.host(host).containers()

    def processes(self, host: str | Host) -> list[Process]:
        return self.host(host).processes()

    def link_down(self, host: str | Host, interface: int = 0) -> None:
        """Pull a host's cable: it keeps its address, and nothing gets through."""
        network.set_link(self._cable(host, interface), up=False)

    def link_up(self, host: str | Host, interface: int = 0) -> None:
        network.set_link(self._cable(host, interface), up=True)

    def stop_dockerd(self, host: str | Host, *, crash: bool = False) -> None:
        self.host(host).stop_dockerd(crash=crash)

    def start_dockerd(self, host: str | Host) -> None:
        self.host(host).start_dockerd()

    def stop_sshd(self, host: str | Host) -> None:
        self.host(host).stop_sshd()

    def start_sshd(self, host: str | Host) -> None:
        self.host(host).start_sshd()

    def kill(self, pid: int, number: signal.Signals = signal.SIGKILL) -> None:
        """Signal a process on one of the hosts; raises FleetError for any other process."""
        process = find(pid)
        if process is None:
            raise FleetError(f"no process {pid}")
        if process not in remove.processes(self.id):
            raise FleetError(f"process {pid} is not on this fleet: {' '.join(process.command)}")
        process.kill(number)

    def clear(self) -> None:
        """Remove every container and mend what the fault functions broke (sshd excepted)."""
        for host in self.hosts:
            for interface in range(len(host.addresses)):
                self.link_up(host, interface)
            if not (host.directory / "run" / "docker.sock").exists():
                host.start_dockerd()
            if ids := host.docker("ps", "--all", "--quiet").split():
                host.docker("rm", "--force", *ids)

    def down(self) -> None:
        remove.remove(self.id)

    def _cable(self, host: str | Host, interface: int) -> str:
        return names.cable(self.id, self.hosts.index(self.host(host)), interface)

    @classmethod
    def attach(cls, fleet: str) -> Fleet:
        """A fleet that another process made."""
        record = load(fleet)
        hosts = [_host(record, host) for host in record.hosts if host.init]
        return cls(record, tuple(hosts))

    @classmethod
    def up(cls, hosts: int = 2, *, keep: bool = False) -> Fleet:
        """Make a fleet of hosts node01, node02, ... with docker, a registry and the image.

        It ends with this process (the next `up` removes it) unless it is to be kept.
        """
        install_debian_packages()
        build_environment()
        write_models()
        record = _reserve(1)
        try:
            plans = [
                HostRecord(f"node{n:02}", (Link(0, record.subnets[0], 10 + n),), docker=True)
                for n in range(1, hosts + 1)
            ]
            fleet = _make(record, plans, bridges=[control_address(record.subnets[0])], jumps={})
            return fleet._kept() if keep else fleet
        except BaseException:
            remove.remove(record.fleet)
            raise

    @classmethod
    def jump_chain(cls) -> Fleet:
        """Three hosts with sshd only, each reachable only through the one before it:
        the control machine - jump1 - jump2 - target."""
        install_debian_packages()
        record = _reserve(3)
        near, middle, far = record.subnets
        try:
            plans = [
                HostRecord("jump1", (Link(0, near, 11), Link(1, middle, 11)), docker=False),
                HostRecord("jump2", (Link(1, middle, 12), Link(2, far, 12)), docker=False),
                HostRecord("target", (Link(2, far, 13),), docker=False),
            ]
            jumps = {"jump2": "jump1", "target": "jump2"}
            return _make(record, plans, bridges=[control_address(near), None, None], jumps=jumps)
        except BaseException:
            remove.remove(record.fleet)
            raise

    def _kept(self) -> Fleet:
        return replace(self, record=replace(self.record, owner=None).save())


def _reserve(subnets: int) -> Record:
    record, remains = reserve(subnets)
    for fleet in remains:
        print(f"fleet: removing what is left of fleet {fleet}", flush=True)
        remove.remove(fleet)
    return record


def _make(
    record: Record, plans: Sequence[HostRecord], *, bridges: list[str | None], jumps: dict[str, str]
) -> Fleet:
    for number, address in enumerate(bridges):
        network.make_bridge(names.bridge(record.fleet, number), address)
    files = AccessFiles(record.directory)
    authorized = make_key(files.key, f"orc-fleet-{record.fleet}")
    known: dict[str, str] = {}
    addresses = {plan.name: plan.links[0].address for plan in plans}
    registry = f"{control_address(record.subnets[0])}:{PORT}"
    for position, plan in enumerate(plans):
        directory = record.directory / plan.name
        key = furnish(directory, plan.name, authorized, addresses)
        known.update({link.address: key for link in plan.links})
        (directory / "registry").write_text(registry)
        init = boot(record.fleet, plan)
        connect(record.fleet, position, plan)
        record = record.with_host(replace(plan, init=init)).save()
    write_known_hosts(files, known)
    write_ssh_config(files, plans, jumps)
    write_inventory(files, plans, jumps)
    hosts = tuple(_host(record, host) for host in record.hosts)
    docked = [host for host, plan in zip(hosts, record.hosts, strict=True) if plan.docker]
    with ThreadPoolExecutor() as pool:
        list(pool.map(Host.start_sshd, hosts))
        started = pool.map(Host.start_dockerd, docked)
        if docked:
            start_registry(record.directory, control_address(record.subnets[0]))
        list(started)
    if docked:
        record = replace(record, images=push_images(docked[0], registry)).save()
    return Fleet(record, hosts)


def _host(record: Record, host: HostRecord) -> Host:
    if host.init is None:
        raise FleetError(f"{host.name} of fleet {record.fleet} was never booted")
    addresses = tuple(link.address for link in host.links)
    return Host(host.name, record.fleet, addresses, host.init)
