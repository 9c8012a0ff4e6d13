"""The Mooncake KV store around a deployment: its master, its store services, their files.

Facts: mooncake_master listens on 50051 (`-rpc_port`) and serves metrics on 9003; the store service
is `python3 -m mooncake.mooncake_store_service --config FILE` with a REST port (8080) and needs
`local_hostname`, its own address, in its file (mooncake-transfer-engine 0.3.13, vLLM 0.32.0).
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.deployment import Deployment
from orchestrator.errors import PlanError, did_you_mean
from orchestrator.inventory.host import Host
from orchestrator.planning.launch_spec import LaunchSpec
from orchestrator.planning.service import KV_STORE_GROUP, Service, service_spec
from orchestrator.recipes.taxonomy import KvStoreFile
from orchestrator.secret import holds_login, is_secret_name
from orchestrator.topology.addresses import is_loopback, no_address
from orchestrator.topology.layout import Layout, Slot
from orchestrator.topology.ports import LAST_PORT, PortAllotment, port_use

STORE_VARIABLE = "MOONCAKE_CONFIG_PATH"
CONFIG_FILE = "/etc/orc/mooncake.json"  # in every container that uses the store
MASTER_PORT = 50051
MASTER_METRICS_PORT = 9003
STORE_PORT = 8080
_MASTER = "master_server_address"


@dataclass(frozen=True, slots=True)
class KvStore:
    """What the instances are given, and the processes that keep the store."""

    instance_config: str  # JSON, for CONFIG_FILE
    services: tuple[LaunchSpec, ...]  # master first, then a store service on each host
    notes: tuple[str, ...] = ()


def plan_kv_store(
    store: KvStoreFile,
    layout: Layout,
    hosts: Mapping[str, Host],
    deployment: Deployment,
    image: str,
    ports: PortAllotment,
) -> KvStore:
    """The store of `layout`: its master on the first host, and where the store is centralized a
    store service on every host that serves.

    The deployment's `kv_store` goes over the configuration; with a `master_server_address` the
    store has that master, and none of its own. Raises PlanError for a key that Mooncake's
    configuration does not have, and for a master that the hosts cannot meet.
    """
    slots = list({node.slot.host: node.slot for node in layout.nodes}.values())
    head = slots[0]
    keeper = store.mooncake_store_config
    services: list[LaunchSpec] = []
    notes: tuple[str, ...] = ()
    if _MASTER in deployment.kv_store:
        master = _own_master(deployment.kv_store[_MASTER], slots)
        group_size = len(slots)
        notes = (
            f"the KV store's master is yours, at {master}: none is started, and orc does not "
            "look after it",
        )
    else:
        rpc, metrics = _master_ports(head, ports)
        master = _bracketed(head.address, rpc)
        group_size = 1 + (len(slots) if keeper else 0)
        services.append(
            service_spec(
                Service(
                    role="kv_master",
                    slot=head,
                    command=_master_command(store, rpc, metrics),
                    ports={"mooncake": rpc, "mooncake_metrics": metrics},
                    group_size=group_size,
                ),
                hosts[head.host],
                deployment,
                image,
            )
        )
    instance = _config(store.mooncake_vllm_config.template, store, deployment, master, hosts, head)
    for rank, slot in enumerate(slots if keeper else (), start=len(services)):
        assert keeper is not None
        use = port_use("mooncake_store", "kv_store", KV_STORE_GROUP, rank)
        port = ports.take(slot.host, use, STORE_PORT)
        config = _config(keeper.config or {}, store, deployment, master, hosts, slot, keeper=True)
        command = keeper.command.replace("$MOONCAKE_STORE_CONFIG_PATH", CONFIG_FILE)
        services.append(
            service_spec(
                Service(
                    role="kv_store",
                    slot=slot,
                    rank=rank,
                    command=(*shlex.split(command), "--port", str(port)),
                    ports={"mooncake_store": port},
                    group_size=group_size,
                    files={CONFIG_FILE: _text({**config, "local_hostname": slot.address or ""})},
                ),
                hosts[slot.host],
                deployment,
                image,
            )
        )
    return KvStore(_text(instance), tuple(services), notes)


def _master_ports(head: Slot, ports: PortAllotment) -> tuple[int, int]:
    """Of its RPC and of its metrics."""

    def take(use: str, wanted: int) -> int:
        return ports.take(head.host, port_use(use, "kv_master", KV_STORE_GROUP, 0), wanted)

    return take("mooncake", MASTER_PORT), take("mooncake_metrics", MASTER_METRICS_PORT)


def _own_master(given: str | int | bool, slots: Sequence[Slot]) -> str:
    """The address of a master that the user runs; several of them are found by `etcd://`."""
    address = str(given)
    if address.startswith("etcd://"):
        return address
    host, _, port = address.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    why = None
    if not host or not re.fullmatch("[0-9]{1,5}", port) or not 1 <= int(port) <= LAST_PORT:
        why = "it is HOST:PORT"
    elif (":" in bare) != (bare != host):
        why = "an IPv6 address, and no other, stands in brackets before a port"
    elif len(slots) > 1 and is_loopback(bare):
        why = "a loopback address is another machine on each of the hosts"
    why = why or no_address(bare)
    if why is not None:
        raise PlanError(
            f"kv_store.{_MASTER} is {address!r}",
            why=f"{why}; {', '.join(slot.host for slot in slots[:8])} ask it who holds which block",
            hint="the address and port of your mooncake_master, such as 10.1.0.9:50051, or leave "
            "it out and orc starts one",
        )
    return address


def _master_command(store: KvStoreFile, rpc: int, metrics: int) -> tuple[str, ...]:
    words = shlex.split(store.mooncake_master.command, comments=True)
    words = [f"-rpc_port={rpc}" if word.startswith("-rpc_port=") else word for word in words]
    return (*words, f"-metrics_port={metrics}")


def _config(
    template: Mapping[str, Any],
    store: KvStoreFile,
    deployment: Deployment,
    master: str,
    hosts: Mapping[str, Host],
    slot: Slot,
    keeper: bool = False,
) -> dict[str, Any]:
    """A template with its placeholders filled in, and the deployment's own values over it."""
    config = dict(template)
    config["master_server_address"] = master
    config["device_name"] = ""  # Mooncake chooses by the distance of NIC and GPU
    if config.get("protocol") == "rdma" and not _has_rdma(hosts[slot.host]):
        config["protocol"] = "tcp"
    for key, value in deployment.kv_store.items():
        if key not in config:
            raise PlanError(
                f"kv_store.{key} is no setting of {store.name}", hint=did_you_mean(key, config)
            )
        # What a store service lends is not lent by the instances: theirs stays 0.
        if key == "global_segment_size" and not keeper and config[key] == 0:
            continue
        config[key] = value
    for key, value in config.items():
        if value and (is_secret_name(key) or (isinstance(value, str) and holds_login(value))):
            raise PlanError(
                f"kv_store.{key} would put a secret into {CONFIG_FILE}",
                why="every user of the host can read it, and `orc plan` shows it",
                hint="a metadata_server without a password; P2PHANDSHAKE needs no server",
            )
    return config


def _has_rdma(host: Host) -> bool:
    return any(device.startswith("/dev/infiniband") for device in host.settings.devices)


def _text(config: Mapping[str, Any]) -> str:
    return json.dumps(config, indent=2, sort_keys=True) + "\n"


def _bracketed(address: str | None, port: int) -> str:
    host = address or "127.0.0.1"
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
