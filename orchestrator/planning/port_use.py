"""Which ports are in use, from what the hosts said: an input of the plan. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from orchestrator.facts.host_facts import HostFacts
from orchestrator.planning.launch_spec import RESERVED_PORTS
from orchestrator.runtime.containers import ContainerState
from orchestrator.topology.ports import PortUse, port_use


def ports_in_use(
    name: str, facts: Mapping[str, HostFacts], containers: Iterable[ContainerState]
) -> PortUse:
    """Ports of others by host, and those that the deployment `name` holds already.

    A port counts as another's when it is listened on, or when a container of another
    deployment was given it, though it may not listen yet (vLLM listens only when it is ready).
    """
    held: dict[str, dict[str, int]] = {}
    busy: dict[str, dict[int, str]] = {host: {} for host in facts}
    # What a roll has put aside holds its ports too, but what runs in its place goes before it.
    for state in sorted(containers, key=lambda state: not state.aside):
        if state.deployment != name and state.running:
            owner = f"the router of deployment {state.deployment}, which starts later"
            elsewhere, _, kept = state.labels.get(RESERVED_PORTS, "").rpartition(":")
            for port in _ports(kept).values():
                busy.setdefault(elsewhere or state.host, {}).setdefault(port, owner)
        for use, port in labelled_ports(state).items():
            if state.deployment == name:
                key = port_use(use, state.role, state.replica, state.rank)
                held.setdefault(state.host, {})[key] = port
            elif state.running:
                owner = f"{state.name} of deployment {state.deployment}"
                busy.setdefault(state.host, {})[port] = owner
    for host, own in facts.items():
        ours = set(held.get(host, {}).values())
        for port, owner in own.listening:
            if port not in ours:
                busy[host].setdefault(port, owner or "a process that this login may not see")
    return PortUse(busy, held)


def with_planned_ports(use: PortUse, planned: Mapping[str, Mapping[str, Sequence[int]]]) -> PortUse:
    """`use`, with what others have planned and not started yet, by deployment and host."""
    busy = {host: dict(ports) for host, ports in use.busy.items()}
    for name, hosts in planned.items():
        for host, ports in hosts.items():
            owner = f"deployment {name}, which is being started"
            busy[host] = {**dict.fromkeys(ports, owner), **busy.get(host, {})}
    return PortUse(busy, use.held)


def labelled_ports(state: ContainerState) -> dict[str, int]:
    """The ports that a container was given, by use."""
    return _ports(state.labels.get("orc.ports", ""))


def _ports(label: str) -> dict[str, int]:
    """`api=8000,master=29501` by use."""
    pairs = (pair.partition("=") for pair in label.split(","))
    return {use: int(port) for use, _, port in pairs if port.isdecimal()}
