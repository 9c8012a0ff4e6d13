"""What a probe found out about a host. Plain data: the probe is elsewhere."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU: its index, name, and memory in MiB (total and used)."""

    index: int
    name: str
    memory_mib: int
    used_mib: int


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that holds memory of a GPU; `container` is a container's ID, or empty."""

    gpu: int
    pid: int
    name: str
    user: str
    used_mib: int
    container: str = ""


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model's directory on the host: its `config.json`, and the bytes of its safetensors files.

    `config` is empty for a file above 1 MiB.
    """

    path: str
    config: str
    weights: int = 0


@dataclass(frozen=True, slots=True)
class HostFacts:
    """Facts of one host, as its own commands report them."""

    hostname: str = ""
    addresses: tuple[tuple[str, str], ...] = ()  # (interface, address), in the kernel's order
    reached_at: str | None = None  # the host's own end of the SSH connection
    gpus: tuple[Gpu, ...] = ()
    driver_version: str | None = None
    docker_version: str | None = None  # None: no docker, or its daemon does not answer
    docker_error: str | None = None  # what docker said instead
    cpus: int = 0
    memory_mib: int = 0
    disk_free_mib: int | None = None  # where docker keeps its images
    listening: tuple[tuple[int, str], ...] = ()  # (TCP port, owner as `name/pid` or "")
    port_containers: tuple[tuple[int, str], ...] = ()  # (TCP port, ID of its owner's container)
    gpu_processes: tuple[GpuProcess, ...] = ()
    model: ModelFiles | None = None  # of the model that was looked for, where it is there

    def interface_of(self, address: str) -> str | None:
        """The interface that owns `address`."""
        return next((name for name, own in self.addresses if own == address), None)

    def address_of(self, interface: str) -> str | None:
        """The first address of `interface` that means something on other hosts too."""
        own = (address for name, address in self.addresses if name == interface)
        return next((address for address in own if not address.startswith("fe80:")), None)
