"""The options of `docker run` and what `docker inspect` makes of them, in one form to compare.

Options that are lists (mounts, devices, capabilities, ...) become sorted tuples, all others
one text; an option that has docker's default is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

LISTS = (
    *("volume", "device", "gpus", "cap-add", "cap-drop", "ulimit", "group-add"),
    *("security-opt", "tmpfs"),
)
# What `docker update` can change in a container that runs.
UPDATABLE = (
    *("memory", "memory-reservation", "cpus", "cpu-shares", "cpu-quota", "cpu-period"),
    *("cpuset-cpus", "pids-limit", "restart"),
)
_SCALARS = (
    *UPDATABLE,
    *("memory-swap", "network", "ipc", "pid", "init", "stop-timeout", "shm-size", "user"),
    *("workdir", "privileged", "read-only", "runtime", "oom-score-adj"),
)
_BYTES = ("memory", "memory-swap", "memory-reservation", "shm-size")
_FLAGS = ("init", "privileged", "read-only", "detach", "interactive", "tty", "rm", "publish-all")
_SHORT = {
    **{"v": "volume", "m": "memory", "c": "cpu-shares", "u": "user", "w": "workdir", "l": "label"},
    **{"d": "detach", "i": "interactive", "t": "tty", "p": "publish", "P": "publish-all"},
    **{"e": "env", "h": "hostname", "a": "attach"},
}
# What is compared elsewhere, or is not of the container that runs.
_ELSEWHERE = (
    "name",
    "label",
    "env-file",
    "env",
    "entrypoint",
    "detach",
    "rm",
    "interactive",
    "tty",
)
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


@dataclass(frozen=True, slots=True)
class DockerOptions:
    """Options by name without the dashes; `unknown` are those that are not compared."""

    scalars: Mapping[str, str] = field(default_factory=dict)
    lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()


def options_of_run(command: Sequence[str]) -> DockerOptions:
    """The options of a `docker run ...`, as `docker_run.run_command` builds it."""
    scalars: dict[str, str] = {}
    lists: dict[str, list[str]] = {}
    labels: dict[str, str] = {}
    unknown: list[str] = []
    for name, value in _options(command[2:]):
        if name == "label":
            key, _, text = value.partition("=")
            labels[key] = text
        elif name in LISTS:
            lists.setdefault(name, []).append(_list_item(name, value))
        elif name in _SCALARS:
            scalars[name] = _scalar(name, value)
        elif name not in _ELSEWHERE:
            unknown.append(f"--{name}")
    sorted_lists = {name: tuple(sorted(values)) for name, values in lists.items()}
    return DockerOptions(scalars, sorted_lists, labels, tuple(dict.fromkeys(unknown)))


def _options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each option with its value, up to the image."""
    rest = iter(words)
    for word in rest:
        if not word.startswith("-"):
            return
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
        else:
            name, value = _SHORT.get(word[1:2], word[1:2]), word[2:].removeprefix("=")
            equals = value
        if not equals:
            value = "true" if name in _FLAGS else next(rest, "")
        yield name, value


def _scalar(name: str, value: str) -> str:
    if name in _BYTES:
        return _shown_bytes(_bytes(value))
    return f"{float(value):g}" if name == "cpus" and re.fullmatch(r"[\d.]+", value) else value


def _list_item(name: str, value: str) -> str:
    if name == "device":
        if "=" in value and not value.startswith("/"):  # CDI: nvidia.com/gpu=0
            return value
        outside, _, rest = value.partition(":")
        inside, _, rights = rest.partition(":")
        return f"{outside}:{inside or outside}:{rights or 'rwm'}"
    if name == "gpus":
        return value.strip('"')
    if name.startswith("cap-"):
        return value.upper().removeprefix("CAP_")
    if name == "ulimit":
        kind, _, limits = value.partition("=")
        soft, _, hard = limits.partition(":")
        return f"{kind}={soft}:{hard or soft}"
    return value


def _bytes(text: str) -> int:
    match = re.fullmatch(r"(-?\d+(?:\.\d+)?)\s*([bkmgt]?)(?:i?b)?", text.lower())
    return int(float(match[1]) * _UNITS[match[2]]) if match else -1


def _shown_bytes(number: int) -> str:
    for unit in ("t", "g", "m", "k"):
        if number > 0 and number % _UNITS[unit] == 0:
            return f"{number // _UNITS[unit]}{unit}"
    return str(number)


def options_of_inspect(host: Mapping[str, Any], config: Mapping[str, Any]) -> DockerOptions:
    """The options that a container has: `host` is docker's HostConfig, or the part of it that
    `container_details` asks for; `config` its Config, likewise."""
    policy = host.get("RestartPolicy") or {}
    retries = policy.get("MaximumRetryCount") or 0
    values = {
        "network": host.get("NetworkMode"),
        "ipc": host.get("IpcMode"),
        "pid": host.get("PidMode"),
        "init": "true" if host.get("Init") else None,
        "privileged": "true" if host.get("Privileged") else None,
        "read-only": "true" if host.get("ReadonlyRootfs") else None,
        "restart": (policy.get("Name") or "no") + (f":{retries}" if retries else ""),
        "stop-timeout": config.get("StopTimeout"),
        "user": config.get("User"),
        "workdir": config.get("WorkingDir"),
        "runtime": host.get("Runtime"),
        "cpus": f"{host['NanoCpus'] / 1e9:g}" if host.get("NanoCpus") else None,
        "cpu-shares": host.get("CpuShares"),
        "cpu-quota": host.get("CpuQuota"),
        "cpu-period": host.get("CpuPeriod"),
        "cpuset-cpus": host.get("CpusetCpus"),
        "pids-limit": None if host.get("PidsLimit") in (None, 0, -1) else host["PidsLimit"],
        "oom-score-adj": host.get("OomScoreAdj"),
        "memory": _size(host.get("Memory")),
        "memory-swap": _size(host.get("MemorySwap")),
        "memory-reservation": _size(host.get("MemoryReservation")),
        "shm-size": _size(host.get("ShmSize")),
    }
    lists = {
        "volume": host.get("Binds") or [],
        "device": [*_devices(host), *_cdi_devices(host)],
        "gpus": list(_gpus(host)),
        "cap-add": [_list_item("cap-add", name) for name in host.get("CapAdd") or []],
        "cap-drop": [_list_item("cap-drop", name) for name in host.get("CapDrop") or []],
        "ulimit": [f"{u['Name']}={u['Soft']}:{u['Hard']}" for u in host.get("Ulimits") or []],
        "group-add": host.get("GroupAdd") or [],
        # Added by docker itself to what shares the host's IPC, where there is SELinux.
        "security-opt": [o for o in host.get("SecurityOpt") or [] if o != "label=disable"],
        "tmpfs": [
            f"{path}:{more}" if more else path for path, more in (host.get("Tmpfs") or {}).items()
        ],
    }
    return DockerOptions(
        {name: str(value) for name, value in values.items() if value not in (None, "", 0)},
        {name: tuple(sorted(found)) for name, found in lists.items() if found},
    )


def _size(number: int | None) -> str | None:
    return _shown_bytes(number) if number else None


def _devices(host: Mapping[str, Any]) -> Iterator[str]:
    for device in host.get("Devices") or []:
        places = (device["PathOnHost"], device["PathInContainer"], device["CgroupPermissions"])
        yield ":".join(places)


def _cdi_devices(host: Mapping[str, Any]) -> Iterator[str]:
    for request in host.get("DeviceRequests") or []:
        if request.get("Driver") == "cdi":
            yield from request.get("DeviceIDs") or []


def _gpus(host: Mapping[str, Any]) -> Iterator[str]:
    """As after `--gpus`: `device=0,1`, `all`, or how many."""
    for request in host.get("DeviceRequests") or []:
        if request.get("Driver") == "cdi":
            continue
        ids = request.get("DeviceIDs") or []
        count = request.get("Count") or 0
        yield f"device={','.join(ids)}" if ids else "all" if count == -1 else str(count)
