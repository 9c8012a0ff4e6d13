"""Processes beside the engines: router, KV-store master, KV-store service."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from orchestrator.deployment import Deployment
from orchestrator.inventory.host import Host
from orchestrator.planning.health_check import endpoint_check, ports_check
from orchestrator.planning.launch_spec import IMAGE, LaunchSpec
from orchestrator.runtime.container import Container
from orchestrator.secret import Secret
from orchestrator.topology.layout import Slot
from orchestrator.version import __version__

ServiceRole = Literal["router", "kv_master", "kv_store"]

# Services are groups of their own, with a fate of their own. Their containers carry these as
# `orc.replica`, so that every tool that groups by replica keeps them apart from the engines.
KV_STORE_GROUP = -1
ROUTER_GROUP = -2
SERVICE_GROUPS: Mapping[ServiceRole, int] = {
    "kv_master": KV_STORE_GROUP,
    "kv_store": KV_STORE_GROUP,
    "router": ROUTER_GROUP,
}
GROUP_NAMES = {KV_STORE_GROUP: "KV store", ROUTER_GROUP: "router"}


def start_order(groups: Iterable[int]) -> list[list[int]]:
    """Groups by when they start, those of a step at once: what the engines store into is there
    before them, and what sends to them comes after them."""
    there = set(groups)
    replicas = sorted(number for number in there if number >= 0)
    steps = ([KV_STORE_GROUP], replicas, [ROUTER_GROUP])
    return [kept for step in steps if (kept := [number for number in step if number in there])]


def group_name(replica: int) -> str:
    """`replica 0`, or the name of a group of services."""
    return GROUP_NAMES.get(replica, f"replica {replica}")


def short_group_name(replica: int) -> str:
    """`r0`, or the name of a group of services: for the labels of lines."""
    return GROUP_NAMES.get(replica, f"r{replica}")


@dataclass(frozen=True, slots=True)
class Service:
    """One process beside the engines: where it runs, with which command, ports and files."""

    role: ServiceRole
    slot: Slot
    command: tuple[str, ...]
    rank: int = 0  # within its group
    group_size: int = 1  # containers of its group
    ports: Mapping[str, int] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str | Secret] = field(default_factory=dict)
    endpoint: str | None = None
    model: str | None = None


def service_spec(service: Service, host: Host, deployment: Deployment, image: str) -> LaunchSpec:
    """The launch of a service: no GPU, the host's volumes and environment, ports as given."""
    name = deployment.deployment_name()
    suffix = f"-n{service.rank}" if service.role == "kv_store" else ""
    container_name = f"orc-{name}-{service.role.replace('_', '-')}{suffix}"
    labels = {
        "orc.deployment": name,
        "orc.replica": str(SERVICE_GROUPS[service.role]),
        "orc.rank": str(service.rank),
        "orc.role": service.role,
        "orc.nodes": str(service.group_size),
        "orc.version": __version__,
        IMAGE: image,
        "orc.ports": ",".join(f"{use}={port}" for use, port in service.ports.items()),
    }
    if service.endpoint and service.model:
        labels |= {"orc.endpoint": service.endpoint, "orc.model": service.model}
    container = Container(
        name=container_name,
        image=image,
        command=service.command,
        labels=labels,
        env_file=f".orc/{container_name}.env",
        files=service.files,
        brand="CPU",
        volumes=host.settings.volumes,
        devices=host.settings.devices if service.role == "kv_store" else (),
        extra_args=host.settings.container_args,
    )
    if service.endpoint:
        health = endpoint_check(
            deployment.health, service.role, service.endpoint, service.model or ""
        )
    else:
        health = ports_check(tuple(service.ports.values()))
    return LaunchSpec(
        deployment=name,
        host=host.name,
        replica=SERVICE_GROUPS[service.role],
        rank=service.rank,
        role=service.role,
        gpus=(),
        ranks=(),
        address=service.slot.address,
        interface=service.slot.interface,
        argv=service.command,
        env={**host.settings.env, **service.env},
        image=image,
        container=container,
        served_model=service.model or "",
        health=health,
        port=service.ports.get("api"),
        ports=service.ports,
    )
