"""A container to run, as data. `docker.py` makes an argument list of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# Not under the login's home, since docker needs an absolute path; not under /tmp, which is
# emptied while containers run.
FILES_DIRECTORY = "/var/tmp/orc"

# What a roll puts aside is stopped and has one of these behind its name: the spec that ran before
# it, and the spec that it went back from. Docker keeps their environment, so no secret has to be
# known to bring one back.
BEFORE = "-before"
AFTER = "-after"


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
    files: Mapping[str, str] = field(default_factory=dict)  # path in the container -> content
    brand: str = "NVIDIA"
    gpus: tuple[int, ...] = ()
    volumes: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    extra_args: tuple[str, ...] = ()
    restart: str = "no"
    stop_seconds: int = 60

    def host_path(self, path: str) -> str:
        """Where a file of `files` lies on the host, from where it is mounted read-only."""
        return f"{FILES_DIRECTORY}/{self.name}/{path.rsplit('/', 1)[-1]}"
