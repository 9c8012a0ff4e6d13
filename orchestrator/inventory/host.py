"""A host: its groups, its variables, how to reach it, and what `orc_*` says about it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    WithJsonSchema,
)

from orchestrator.deployment import environment_text
from orchestrator.secret import Secret, is_secret_name


def _words(value: Any) -> Any:
    """INI and habit write lists as one string of words; YAML writes them as lists."""
    return shlex.split(value) if isinstance(value, str) else value


def _environment(value: Any) -> Any:
    """A dict is checked at once; any other mapping gives its values only when they are read."""
    if isinstance(value, dict):
        return {str(name): environment_text(text) for name, text in value.items()}
    if not isinstance(value, Mapping):
        raise ValueError("a mapping of NAME: value")
    return value


def _gpus(value: Any) -> Any:
    """`[0, 1]`, `"0,1,2,3"` and `"0-3"`; a lone number could also mean how many, so it cannot."""
    if value is None:
        return None
    gpus = _gpu_ranges(value) if isinstance(value, str) else value
    if not isinstance(gpus, list | tuple):
        raise ValueError("a list of GPU indices such as [0, 1] or 0-3; a single one is [0]")
    for gpu in gpus:
        if isinstance(gpu, bool) or not isinstance(gpu, int) or gpu < 0:
            raise ValueError(f"a GPU index is a whole number from 0 up, which {gpu!r} is not")
    twice = sorted({gpu for gpu in gpus if gpus.count(gpu) > 1})
    if twice:
        raise ValueError(f"GPU {twice[0]} stands there twice")
    return tuple(gpus)


def _gpu_ranges(text: str) -> list[Any] | None:
    if not re.search("[,-]", text):
        return None
    gpus: list[Any] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        bounds = re.fullmatch(r"(\d{1,4})\s*-\s*(\d{1,4})", part)
        if bounds:
            first, last = int(bounds[1]), int(bounds[2])
            if first > last:
                raise ValueError(f"the range {part} ends before it begins")
            gpus += range(first, last + 1)
        else:
            gpus.append(int(part) if part.isdecimal() else part)
    return gpus


def is_network_name(text: str) -> bool:
    """Whether an address, interface or login can be of this name. OpenSSH refuses the others as
    well: what a ProxyCommand or a shell would read as more than a name."""
    return text.isprintable() and not re.search(r"""^-|[\s'"`$;&|<>(){}\\]""", text)


def _name(value: str | None) -> str | None:
    if value is not None and (not value or not is_network_name(value)):
        raise ValueError("a name or an address, with no spaces, quotes or shell characters")
    return value


Words = Annotated[
    tuple[str, ...],
    BeforeValidator(_words),
    WithJsonSchema({"type": ["array", "string"], "items": {"type": "string"}}),
]


# What orc itself gives, and relies on to find and to explain what it started.
_OWN_OPTIONS = ("--name", "--entrypoint", "--detach", "-d", "--rm", "--restart")


def _container_arguments(words: tuple[str, ...]) -> tuple[str, ...]:
    for word, following in zip(words, (*words[1:], ""), strict=True):
        option, equals, value = word.partition("=")
        if option in ("-e", "--env") or (word.startswith("-e") and word[:2] != "--"):
            raise ValueError(
                "an environment variable here would stand on a command line, where every user of "
                "the host can read it: give it in orc_env"
            )
        if option in _OWN_OPTIONS:
            raise ValueError(f"{option} is given by orc itself")
        if option in ("-l", "--label"):
            label = (value if equals else following).partition("=")[0]
            if label.startswith("orc.") or is_secret_name(label.replace(".", "_")):
                raise ValueError(f"a label {label!r} can be orc's own or hold a secret")
    return words


_GPUS_SCHEMA = WithJsonSchema(
    {"type": ["array", "string", "null"], "items": {"type": "integer", "minimum": 0}}
)
_ENV_SCHEMA = WithJsonSchema(
    {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}
)


class HostSettings(BaseModel):
    """The `orc_*` variables of a host, without their prefix. An unknown one is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    hardware: str | None = Field(
        default=None, description="hardware profile, such as h200; else detected from the GPUs"
    )
    gpus: Annotated[tuple[int, ...] | None, BeforeValidator(_gpus), _GPUS_SCHEMA] = Field(
        default=None,
        description="which of the host's GPUs may be used: `[0, 1]` or `0-3`; else all",
    )
    gpu_memory_gb: Annotated[float | None, Field(gt=0, allow_inf_nan=False)] = Field(
        default=None, description="GiB of each GPU, where it is not what the profile says"
    )
    interface: Annotated[str | None, AfterValidator(_name)] = Field(
        default=None, description="data-plane NIC; else the one that owns the address"
    )
    address: Annotated[str | None, AfterValidator(_name)] = Field(
        default=None,
        description="data-plane address; else the interface's, else `ansible_host`",
    )
    runtime: Literal["docker", "podman", "process"] = Field(
        default="docker", description="what runs the containers"
    )
    hf_home: str | None = Field(
        default=None, description="directory that is mounted as the Hugging Face cache"
    )
    volumes: Words = Field(default=(), description="further mounts, as `docker run --volume`")
    devices: Words = Field(default=(), description="further devices, such as /dev/infiniband")
    container_args: Annotated[Words, AfterValidator(_container_arguments)] = Field(
        default=(), description="appended to `docker run`"
    )
    # From an inventory the values are resolved, and their lookups run, when they are read.
    env: Annotated[Mapping[str, str | Secret], PlainValidator(_environment), _ENV_SCHEMA] = Field(
        default_factory=dict, description="environment; merged key by key from all, group and host"
    )


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """How to reach a host: what the `ansible_*` variables say. None: ssh's own default."""

    kind: Literal["ssh", "local"] = "ssh"
    address: str = ""
    port: int | None = None
    user: str | None = None
    private_key_file: str | None = None
    password: Secret | None = None
    become: bool = False
    become_user: str | None = None
    become_password: Secret | None = None
    private_key_passphrase: Secret | None = None
    common_args: tuple[str, ...] = ()  # words of ansible_ssh_args, _common_args and _extra_args


@dataclass(frozen=True, slots=True)
class Host:
    """One host of the inventory, all its variables resolved by Ansible's precedence."""

    name: str
    connection: ConnectionSettings
    settings: HostSettings
    groups: tuple[str, ...] = ()  # with those above them, in the order in which they apply
    # From an inventory: reading a variable resolves its templates and runs its lookups.
    variables: Mapping[str, Any] = field(default_factory=dict)
