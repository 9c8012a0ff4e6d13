"""A container to run, as data. `docker.py` makes an argument list of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Container:
    """Everything a container runtime is told about one container, but for the environment.

    The environment goes over stdin into the file `env_file` on the host, never on a command
    line.
    """

    name: str
    image: str
    command: tuple[str, ...]  # with the executable first: ("vllm", "serve", MODEL, ...)
    labels: Mapping[str, str] = field(default_factory=dict)
    env_file: str | None = None
    brand: str = "NVIDIA"
    gpus: tuple[int, ...] = ()
    volumes: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    extra_args: tuple[str, ...] = ()
    restart: str = "no"
    stop_seconds: int = 60
