"""A host: its groups, its variables, how to reach it, and what `orc_*` says about it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from orchestrator.deployment import environment_text
from orchestrator.secret import Secret


def _words(value: Any) -> Any:
    """INI and habit write lists as one string of words; YAML writes them as lists."""
    return shlex.split(value) if isinstance(value, str) else value


def _environment(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {str(name): environment_text(text) for name, text in value.items()}


Words = Annotated[tuple[str, ...], BeforeValidator(_words)]


class HostSettings(BaseModel):
    """The `orc_*` variables of a host, without their prefix. An unknown one is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    hardware: str | None = None  # a hardware profile of the catalog
    gpus: tuple[int, ...] | None = None  # which of the host's GPUs may be used
    interface: str | None = None  # data-plane NIC
    address: str | None = None  # data-plane address
    runtime: Literal["docker", "podman", "process"] = "docker"
    hf_home: str | None = None  # mounted as the container's Hugging Face cache
    volumes: Words = ()
    devices: Words = ()
    container_args: Words = ()  # appended to `docker run`
    env: Annotated[dict[str, str | Secret], BeforeValidator(_environment)] = Field(
        default_factory=dict
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
    common_args: tuple[str, ...] = ()  # words of ansible_ssh_common_args


@dataclass(frozen=True, slots=True)
class Host:
    """One host of the inventory, all its variables resolved by Ansible's precedence."""

    name: str
    connection: ConnectionSettings
    settings: HostSettings
    groups: tuple[str, ...] = ()
    variables: Mapping[str, Any] = field(default_factory=dict)
