"""What a container was really started with, as far as it may leave the host.

The environment holds secrets. So of each variable only a digest leaves the host, salted anew for
every look with a salt that comes over stdin and is printed nowhere: it can be compared with what
is planned, and with nothing else. The text itself is asked for only of variables that the plan
shows anyway.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.runtime.docker_options import DockerOptions, options_of_inspect
from orchestrator.runtime.scripts import Script

_HOST_CONFIG = (
    *("NetworkMode", "IpcMode", "PidMode", "Init", "Privileged", "ReadonlyRootfs"),
    *("RestartPolicy", "Runtime", "NanoCpus", "CpuShares", "CpuQuota", "CpuPeriod", "CpusetCpus"),
    *("PidsLimit", "OomScoreAdj", "Memory", "MemorySwap", "MemoryReservation", "ShmSize", "Binds"),
    *("Devices", "DeviceRequests", "CapAdd", "CapDrop", "Ulimits", "GroupAdd", "SecurityOpt"),
    "Tmpfs",
)
_CONFIG = ("StopTimeout", "User", "WorkingDir")


# A template sees Go's names, which are other ones than those of docker's JSON.
_IN_GO = {
    "NanoCpus": "NanoCPUs",
    "CpuShares": "CPUShares",
    "CpuQuota": "CPUQuota",
    "CpuPeriod": "CPUPeriod",
}


def _fields(parent: str, names: Iterable[str]) -> str:
    return ",".join(f'"{name}":{{{{json .{parent}.{_IN_GO.get(name, name)}}}}}' for name in names)


_INSPECT = (
    '@container {"id":{{json .ID}},"image_id":{{json .Image}},'
    f'"host":{{{_fields("HostConfig", _HOST_CONFIG)}}},'
    f'"config":{{{_fields("Config", _CONFIG)}}}}}'
)
_ENVIRONMENT = "{{range .Config.Env}}{{println .}}{{end}}"

_DETAILS = f"""
details() {{
  salt=SALT
  deployment=$1 open=" $2 "
  shift 2
  ids=$(docker ps --all --quiet --no-trunc --filter "label=orc.deployment=$deployment" \\
    </dev/null) || return 1
  for id in $ids; do
    docker container inspect --format '{_INSPECT}' "$id" </dev/null || {{
      ! docker container inspect --format . "$id" </dev/null >/dev/null 2>&1 || return 1
      continue # it has just gone
    }}
    docker container inspect --format '{_ENVIRONMENT}' "$id" </dev/null | digests @env
    image=$(docker container inspect --format '{{{{.Image}}}}' "$id" </dev/null)
    docker image inspect --format '@image-labels {{{{json .Config.Labels}}}}' "$image" </dev/null
    docker image inspect --format '{_ENVIRONMENT}' "$image" </dev/null | digests @image-env
  done
  for image in "$@"; do
    found=$(docker image inspect --format '{{{{.Id}}}}' "$image" </dev/null 2>/dev/null) || continue
    printf '@local %s %s\\n' "$found" "$image"
  done
  return 0
}}
digests() {{
  while IFS= read -r line; do
    name=${{line%%=*}}
    [ -n "$name" ] || continue
    shown=$name
    case $line in
      *://*:*@*) ;; # a login in a URL
      *) case $open in *" $name "*) shown=$line ;; esac ;;
    esac
    digest=$(printf '%s' "$salt$line" | sha256sum) || return 1
    printf '%s %s %s\\n' "$1" "${{digest%% *}}" "$shown"
  done
}}
details "$@"
"""


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a container's environment: its salted digest, and its text where it is
    known."""

    digest: str
    text: str | None = None


@dataclass(frozen=True, slots=True)
class ContainerDetails:
    """One container: its docker options, its own environment and what its image brings."""

    id: str
    image_id: str
    options: DockerOptions
    env: Mapping[str, Variable] = field(default_factory=dict)  # without what is the image's
    image_labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HostDetails:
    """The containers of one host by ID, and the IDs of images that it holds by reference."""

    containers: Mapping[str, ContainerDetails] = field(default_factory=dict)
    images: Mapping[str, str] = field(default_factory=dict)


def details_script(
    deployment: str, salt: str, open_variables: Iterable[str], images: Sequence[str]
) -> Script:
    """Report the details of a deployment's containers; `salt` is hexadecimal.

    Of `open_variables` the text is reported as well; of every image of `images` its ID.
    """
    if not salt.isalnum():
        raise ValueError("the salt becomes part of a script")
    text = _DETAILS.replace("salt=SALT", f"salt={salt}")
    return Script(text, (deployment, " ".join(open_variables), *images))


def parse_details(stdout: str) -> HostDetails:
    """What `details_script` printed."""
    images: dict[str, str] = {}
    found: dict[str, dict[str, Any]] = {}
    current: dict[str, Any] = {}
    for line in stdout.splitlines():
        mark, _, rest = line.partition(" ")
        if mark == "@container":
            current = {**json.loads(rest), "env": {}, "image_env": {}, "labels": {}}
            found[current["id"]] = current
        elif mark in ("@env", "@image-env") and current:
            digest, _, shown = rest.partition(" ")
            name, equals, text = shown.partition("=")
            key = "env" if mark == "@env" else "image_env"
            current[key][name] = Variable(digest, text if equals else None)
        elif mark == "@image-labels" and current:
            current["labels"] = json.loads(rest) or {}
        elif mark == "@local":
            identifier, _, reference = rest.partition(" ")
            images[reference] = identifier
    return HostDetails({key: _details(data) for key, data in found.items()}, images)


def _details(data: Mapping[str, Any]) -> ContainerDetails:
    image: Mapping[str, Variable] = data["image_env"]
    env = {
        name: variable
        for name, variable in data["env"].items()
        if name not in image or image[name].digest != variable.digest
    }
    return ContainerDetails(
        id=data["id"],
        image_id=data["image_id"],
        options=options_of_inspect(data["host"], data["config"]),
        env=env,
        image_labels=data["labels"],
    )
