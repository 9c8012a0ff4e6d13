"""Hosts of the inventory as the topology sees them: hardware, GPUs, address, interface."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from orchestrator.errors import PlanError
from orchestrator.facts.host_facts import HostFacts
from orchestrator.inventory.host import Host
from orchestrator.planning.gpu_memory import gpu_memory
from orchestrator.recipes.resolved import HardwareProfile
from orchestrator.topology.ip_address import ip_address
from orchestrator.topology.layout import Slot


def choose_hardware(hosts: Sequence[Host], asked: str | None) -> str:
    """The hardware profile to plan for: the one asked for, else the one all hosts share.

    Raises PlanError when no host says its hardware or the hosts differ.
    """
    if not hosts:
        raise PlanError("no hosts are left to plan on", hint="check the inventory and --limit")
    if asked:
        return asked
    counts = Counter(host.settings.hardware for host in hosts)
    unknown = [host.name for host in hosts if host.settings.hardware is None]
    if unknown:
        raise PlanError(
            f"the hardware of {', '.join(unknown[:8])} is not known",
            hint="set orc_hardware in the inventory, give --hardware, or let `orc plan "
            "--gather-facts` ask the hosts, as `orc up` does",
        )
    if len(counts) > 1:
        shown = ", ".join(
            f"{name} ({count} host{'s' * (count > 1)})" for name, count in counts.items()
        )
        raise PlanError(
            f"the hosts are of several kinds: {shown}",
            why="the ranks of a deployment run on one kind of hardware",
            hint="give --hardware, or --limit; hosts whose GPUs differ in memory alone (as h100 "
            "and h200) go together with one orc_hardware, and orc_gpu_memory_gb where it differs",
        )
    return str(next(iter(counts)))


def hosts_of(hosts: Sequence[Host], hardware: str) -> list[Host]:
    """The hosts of that hardware; those that say none count when nobody says it.

    Raises PlanError when there is none.
    """
    chosen = [host for host in hosts if host.settings.hardware in (hardware, None)]
    if not chosen:
        kinds = sorted({str(host.settings.hardware) for host in hosts})
        raise PlanError(
            f"no host is of hardware {hardware!r}",
            hint=f"the hosts are: {', '.join(kinds)}",
        )
    return chosen


def slot(host: Host, profile: HardwareProfile, facts: HostFacts | None) -> Slot:
    """The host's GPUs, address and interface: from the inventory, else from its facts.

    Raises PlanError when the inventory names more GPUs than the hardware has.
    """
    settings = host.settings
    gpus = settings.gpus if settings.gpus is not None else tuple(range(profile.gpu_count))
    if not gpus:
        raise PlanError("orc_gpus leaves no GPU", where=host.name, hint="name at least one")
    beyond = [gpu for gpu in gpus if gpu >= profile.gpu_count and profile.brand != "CPU"]
    if beyond:
        raise PlanError(
            f"orc_gpus names GPU {beyond[0]}, but {profile.name} has {profile.gpu_count} GPUs "
            f"(0 to {profile.gpu_count - 1})",
            where=host.name,
            hint="correct orc_gpus or orc_hardware",
        )
    interface = settings.interface
    address, source = _address(host, facts)
    if interface is None and address and facts:
        interface = facts.interface_of(address)
    return Slot(
        host=host.name,
        gpus=gpus,
        address=address,
        interface=interface,
        gpu_memory=gpu_memory(host, profile, facts, gpus),
        address_source=source,
    )


def slots(
    hosts: Sequence[Host], profile: HardwareProfile, facts: Mapping[str, HostFacts]
) -> list[Slot]:
    """A slot for each host. Raises PlanError when two names are the same machine."""
    return [slot(host, profile, facts.get(host.name)) for host in hosts]


def _address(host: Host, facts: HostFacts | None) -> tuple[str | None, str]:
    """The data-plane address, and what gave it: `orc_address`, else the address of
    `orc_interface`, else `ansible_host` where it is an IP address, else where SSH met the host,
    else the name.

    A name is the last resort: it may mean 127.0.1.1 on the host itself (vllm#7074).
    """
    settings, address = host.settings, host.connection.address
    if settings.address is not None:
        return settings.address, "orc_address"
    if settings.interface and facts and (own := facts.address_of(settings.interface)):
        return own, "orc_interface"
    if host.connection.kind == "local" and address == host.name:
        return "127.0.0.1", "ansible_connection: local"
    if ip_address(address) is None and facts and facts.reached_at:
        return facts.reached_at, "the SSH connection"
    return address or None, "the host's name" if address == host.name else "ansible_host"
