"""The environment of one node: recipe, what its rank needs, the host's overrides, the user's."""

from __future__ import annotations

import re
from collections.abc import Mapping

from orchestrator.errors import PlanError
from orchestrator.inventory.host import HostSettings
from orchestrator.secret import Secret, holds_login, is_secret_name
from orchestrator.topology.build import SIDE_CHANNEL_PORT
from orchestrator.topology.ip_address import ip_address
from orchestrator.topology.layout import Layout, Node

# By which a process is told its rank from outside; given to a server they break its ranks, which
# vLLM counts itself (vllm/config/parallel.py of 0.32.0; torch with env://).
_OFFLINE = "vLLM reads it in offline use only, and computes it here itself"
_LAUNCHER = "a launcher such as torchrun sets it for one rank, and vLLM gives its ranks itself"
_NEVER_SET = {
    **dict.fromkeys(
        (
            "VLLM_DP_MASTER_IP",
            "VLLM_DP_MASTER_PORT",
            "VLLM_DP_RANK",
            "VLLM_DP_RANK_LOCAL",
            "VLLM_DP_SIZE",
        ),
        _OFFLINE,
    ),
    **dict.fromkeys(
        ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
        _LAUNCHER,
    ),
    "VLLM_ELASTIC_EP_SCALE_UP_LAUNCH": "vLLM sets it for engines that it adds itself",
}

HOST_IP = "VLLM_HOST_IP"
SIDE_CHANNEL_HOST = "VLLM_NIXL_SIDE_CHANNEL_HOST"
LAYER_PARTITION = "VLLM_PP_LAYER_PARTITION"

_READY_TIMEOUT = "VLLM_ENGINE_READY_TIMEOUT_S"
_ENGINE_READY_SECONDS = 600  # vLLM's default of it

# The public recipes' placeholders.
_INTERFACE = "$IFACE_NAME"
_HEAD_ADDRESS = "$HEAD_IP"
_OWN_ADDRESS = re.compile(r"\$(PREFILL|DECODE)_NODE_\d+")  # a pool's node binds on its own

# The container is given exactly its GPUs, so they are 0, 1, ... in it whatever they are outside.
GPU_SELECTION = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


def node_environment(
    node: Node,
    head: Node,
    layout: Layout,
    recipe_env: Mapping[str, str],
    settings: HostSettings,
    deployment_env: Mapping[str, str | Secret],
    deadline: float,
) -> dict[str, str | Secret]:
    """Variables of `node`, later layers over earlier ones: recipe, rank, host, deployment.

    `deployment_env` is the deployment's own, its templates resolved for this host; `deadline` is
    how many seconds a start may take. A value under a secret's name becomes a Secret.

    Raises PlanError for a variable that a server must never be given.
    """
    env: dict[str, str | Secret] = {}
    for name, value in recipe_env.items():
        if name in GPU_SELECTION:
            continue
        filled = _filled(name, value, node, head)
        if filled is not None:
            env[name] = filled
    env |= _rank_environment(node, layout, "MOONCAKE_CONFIG_PATH" in recipe_env)
    env |= _patience(env.get(_READY_TIMEOUT), deadline)
    env |= settings.env
    env |= deployment_env
    for name, why in _NEVER_SET.items():
        if name in env:
            raise PlanError(
                f"{name} must not be set for a server",
                where=node.slot.host,
                why=why,
                hint="take it out of orc_env and env",
            )
    return {
        name: Secret(value)
        if isinstance(value, str) and (is_secret_name(name) or holds_login(value))
        else value
        for name, value in env.items()
    }


def _filled(name: str, value: str, node: Node, head: Node) -> str | None:
    """A recipe's value with its placeholders filled in; None when that is not possible yet."""
    if _INTERFACE in value:
        interface = node.slot.interface
        return _interface_value(name, interface) if interface else None
    if _HEAD_ADDRESS in value:
        return value.replace(_HEAD_ADDRESS, head.slot.address or "")
    return _OWN_ADDRESS.sub(node.slot.address or "", value)


def _interface_value(name: str, interface: str) -> str:
    """NCCL takes a prefix (`bond0` also means `bond0.12`) unless it is told `=bond0`."""
    return f"={interface}" if name.startswith("NCCL_") else interface


def meets_others(node: Node, layout: Layout, has_store: bool) -> bool:
    """Whether engines on other hosts may have to reach this one."""
    return layout.nodes_per_replica > 1 or side_channel_port(node) is not None or has_store


def side_channel_port(node: Node) -> str | None:
    """The NIXL side channel's first port: vLLM adds a rank's data-parallel index to it (0.33.0)."""
    for use, port in node.ports.items():
        if use.startswith("nixl"):
            return str(port - int(use.removeprefix("nixl")))
    return None


def _rank_environment(node: Node, layout: Layout, has_store: bool) -> dict[str, str]:
    env: dict[str, str] = {}
    spans = layout.nodes_per_replica > 1
    if meets_others(node, layout, has_store) and ip_address(node.slot.address or ""):
        env[HOST_IP] = node.slot.address or ""
    if spans and node.slot.interface:
        for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"):
            env[name] = _interface_value(name, node.slot.interface)
    if port := side_channel_port(node):
        env[SIDE_CHANNEL_PORT] = port
        env[SIDE_CHANNEL_HOST] = node.slot.address or ""
    if node.layer_partition:
        env[LAYER_PARTITION] = ",".join(map(str, node.layer_partition))
    return env


def _patience(given: str | Secret | None, deadline: float) -> dict[str, str]:
    """vLLM must not give up on its own workers before the deployment's deadline (vllm#32116)."""
    default = _ENGINE_READY_SECONDS
    seconds = int(given) if isinstance(given, str) and given.isdigit() else default
    return {_READY_TIMEOUT: str(int(deadline))} if deadline > seconds else {}
