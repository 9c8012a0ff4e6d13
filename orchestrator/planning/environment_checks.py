"""What a host's or a user's variables may not say: they go over those that the plan computes.

What they change without a word, nobody sees before a start: which GPUs and layers a rank has, at
which address and port it is met (names and meanings of vLLM 0.32.0, vllm/envs.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from orchestrator.errors import PlanError
from orchestrator.planning.environment import (
    GPU_SELECTION,
    HOST_IP,
    LAYER_PARTITION,
    SIDE_CHANNEL_HOST,
    meets_others,
    side_channel_port,
)
from orchestrator.planning.kv_store import CONFIG_FILE, STORE_VARIABLE
from orchestrator.planning.launch_spec import LaunchSpec
from orchestrator.topology.addresses import is_loopback, no_address
from orchestrator.topology.build import SIDE_CHANNEL_PORT
from orchestrator.topology.ip_address import ip_address
from orchestrator.topology.layout import Layout, Node
from orchestrator.topology.ports import LAST_PORT, port_in_words, port_use

_HASH_SEED = "PYTHONHASHSEED"
_ADDRESSES = (HOST_IP, SIDE_CHANNEL_HOST)
# What vLLM opens at them beside what the plan allots.
_PORTS = (
    "VLLM_PORT",
    SIDE_CHANNEL_PORT,
    "VLLM_EC_SIDE_CHANNEL_PORT",
    "VLLM_P2P_SIDE_CHANNEL_PORT",
    "VLLM_MOONCAKE_BOOTSTRAP_PORT",
)


def check_environments(
    layout: Layout, specs: Sequence[LaunchSpec], services: Sequence[LaunchSpec]
) -> None:
    """Refuse variables that contradict the plan. `specs` are those of the layout's nodes, in
    their order; `services` the router and the processes of a KV store.

    A Secret is not looked at: whoever plans need not have it. Raises PlanError naming host,
    variable and value, and what to set in its place.
    """
    ports = _allotted([*specs, *services])
    for node, spec in zip(layout.nodes, specs, strict=True):
        _check_side_channel(node, spec)
        _check_partition(node, spec)
        _check_gpus(spec)
        _check_ports(spec, ports.get(spec.host, {}))
    _check_addresses(layout, specs, together=bool(services))
    _check_hash_seeds([spec for spec in specs if _stores(spec)])


def _stores(spec: LaunchSpec) -> bool:
    """Whether it is an instance of a planned KV store; the variable may be the user's own."""
    return spec.env.get(STORE_VARIABLE) == CONFIG_FILE


def _text(spec: LaunchSpec, name: str) -> str | None:
    value = spec.env.get(name)
    return value if isinstance(value, str) else None


def _allotted(specs: Sequence[LaunchSpec]) -> dict[str, dict[int, str]]:
    """By host, the ports of the deployment's own containers and what they are for."""
    ports: dict[str, dict[int, str]] = {}
    for spec in specs:
        own = ports.setdefault(spec.host, {})
        for use, port in spec.ports.items():
            own[port] = port_use(use, spec.role, spec.replica, spec.rank)
    return ports


def _check_side_channel(node: Node, spec: LaunchSpec) -> None:
    """`env` has its wish where the port is free; `orc_env`, or a second engine, cannot have it."""
    allotted, given = side_channel_port(node), _text(spec, SIDE_CHANNEL_PORT)
    if allotted is None or given is None or given == allotted:
        return
    raise PlanError(
        f"{SIDE_CHANNEL_PORT} is {given}, but {allotted} was allotted to {spec.name}",
        where=spec.host,
        why="the allotted one is free, kept from other deployments, and no other engine's here; "
        "vLLM adds the data-parallel rank to it",
        hint=f"take it out of env and orc_env, or set it to {allotted}; the first port for all "
        f"hosts can be wished for: --set env.{SIDE_CHANNEL_PORT}=N",
    )


def _check_partition(node: Node, spec: LaunchSpec) -> None:
    planned = ",".join(map(str, node.layer_partition or ()))
    given = _text(spec, LAYER_PARTITION)
    if given is None or given == planned:
        return
    numbers = given if re.fullmatch(r"\d+(,\d+)*", given) else "N,M"
    raise PlanError(
        f"{LAYER_PARTITION} is {given!r}, but the plan "
        + (f"has {planned}" if planned else "leaves the split to vLLM"),
        where=spec.host,
        why="it decides the layers of each rank, and so the memory that the plan counts with",
        hint=f"take it out of env and orc_env, and set layer_partition: [{numbers}]",
    )


def _check_gpus(spec: LaunchSpec) -> None:
    """An NVIDIA container has exactly its GPUs, as 0, 1, ...; an AMD one has the host's, of which
    HIP_VISIBLE_DEVICES chooses after ROCR_VISIBLE_DEVICES has."""
    amd = spec.container.brand == "AMD"
    if spec.container.brand == "CPU":
        return
    counted = tuple(range(len(spec.gpus)))
    for name in GPU_SELECTION:
        given = _text(spec, name)
        if given is None:
            continue
        all_of_them = spec.gpus if amd else counted
        hides = amd and name.startswith("ROCR") and spec.gpus != counted
        shown = ",".join(map(str, all_of_them))
        if given == shown and not hides:
            continue
        raise PlanError(
            f"{name} is {given!r}, which changes the GPUs of {spec.name}",
            where=spec.host,
            why=f"it is planned on {', '.join(map(str, spec.gpus))} of the host"
            + ("" if amd else f", which are {shown} in its container"),
            hint="take it out of env and orc_env: orc_gpus says which GPUs of a host may be used",
        )


def _check_ports(spec: LaunchSpec, allotted: Mapping[int, str]) -> None:
    for name in _PORTS:
        given = _text(spec, name)
        if given is None:
            continue
        if not re.fullmatch(r"[0-9]{1,5}", given) or not 1 <= int(given) <= LAST_PORT:
            raise PlanError(
                f"{name} is {given!r}, which is no port",
                where=spec.host,
                why=f"a port is 1 to {LAST_PORT}; vLLM does not start with another value",
                hint="correct it in env or orc_env, or take it out",
            )
        owner = allotted.get(int(given))
        if owner and not (name == SIDE_CHANNEL_PORT and owner.startswith("nixl")):
            raise PlanError(
                f"{name} is {given}, which is the port of the {port_in_words(owner)}",
                where=spec.host,
                why="vLLM opens other ports from there, and one port cannot be had twice",
                hint="choose another one, or take it out of env and orc_env",
            )


def _check_addresses(layout: Layout, specs: Sequence[LaunchSpec], *, together: bool) -> None:
    seen: dict[tuple[str, str, int | None], str] = {}
    hosts = {spec.host for spec in specs}
    for node, spec in zip(layout.nodes, specs, strict=True):
        stored = _stores(spec)
        meets = len(hosts) > 1 and meets_others(node, layout, stored)
        for name in _ADDRESSES:
            given = _text(spec, name)
            if given is None or (not given and not meets):
                continue
            parsed = ip_address(given)
            if given != spec.address:
                _check_address(spec, name, given, meets=meets)
            if is_loopback(given):
                continue
            group = None if together or stored else spec.replica
            other = seen.setdefault((name, str(parsed or given), group), spec.host)
            if other != spec.host:
                raise PlanError(
                    f"{name} is {given} on {other} and on {spec.host}",
                    where=spec.host,
                    why="it is the address at which the others reach this one host",
                    hint="set it in the orc_env of each host, or take it out: orc_address is what "
                    "the plan sets it to",
                )


def _check_address(spec: LaunchSpec, name: str, given: str, *, meets: bool) -> None:
    why = no_address(given)
    if why is None and ip_address(given) is None:
        why = "vLLM takes an IP address there, not a name"
    if why is None and meets and is_loopback(given):
        why = "no other host can reach a loopback address"
    if why is not None:
        raise PlanError(
            f"{name} is {given!r}, which is no address of {spec.host}",
            where=spec.host,
            why=why,
            hint="take it out of env and orc_env: orc_address is what the plan sets it to",
        )


def _check_hash_seeds(specs: Sequence[LaunchSpec]) -> None:
    """With a KV store. A seed that Python draws is another one in each process."""
    first: tuple[str, str] | None = None
    for spec in specs:
        if not isinstance(spec.env.get(_HASH_SEED, ""), str):
            continue
        given = _text(spec, _HASH_SEED) or ""
        if not re.fullmatch(r"[0-9]{1,10}", given) or int(given) >= 2**32:
            raise PlanError(
                f"{_HASH_SEED} is {given!r}, and the instances of a KV store need a number",
                where=spec.host,
                why="they must hash prefixes alike, or none finds what another has stored",
                hint=f"0 to {2**32 - 1}, or take it out of env and orc_env",
            )
        host, seed = first = first or (spec.host, given)
        if seed != given:
            raise PlanError(
                f"{_HASH_SEED} is {seed} on {host} and {given} on {spec.host}",
                where=spec.host,
                why="the instances of a KV store must hash prefixes alike, or none finds what "
                "another has stored",
                hint="give one for all in env, or take it out of orc_env",
            )
