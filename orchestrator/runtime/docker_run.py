"""`docker run` for one container, as an argument list. Runs nothing."""

from __future__ import annotations

from orchestrator.runtime.container import Container


def run_command(container: Container) -> list[str]:
    """The full `docker run` of a vLLM container, detached.

    Host network and host IPC, since several nodes need every TCP port between them and NCCL
    needs more than Docker's 64 MB of /dev/shm (vllm#1710). `--entrypoint` makes it the same for
    images whose entrypoint is `vllm serve` and those whose entrypoint is a shell.
    """
    words = ["docker", "run", "--detach", "--name", container.name]
    for key, value in container.labels.items():
        words += ["--label", f"{key}={value}"]
    words += ["--network", "host", "--ipc", "host", "--init"]
    words += ["--restart", container.restart, "--stop-timeout", str(container.stop_seconds)]
    if container.env_file:
        words += ["--env-file", container.env_file]
    words += _gpu_options(container.brand, container.gpus)
    words += _device_options(container.devices)
    for volume in container.volumes:
        words += ["--volume", volume]
    for path in container.files:
        words += ["--volume", f"{container.host_path(path)}:{path}:ro"]
    words += container.extra_args
    executable, *arguments = container.command
    return [*words, "--entrypoint", executable, container.image, *arguments]


def _gpu_options(brand: str, gpus: tuple[int, ...]) -> list[str]:
    """Exactly the GPUs of this node: vLLM finds nodes by `rank // visible GPUs` (0.33.0)."""
    if brand == "NVIDIA":
        # The inner quotes are part of the value: without them docker splits it at the comma.
        return ["--gpus", f'"device={",".join(map(str, gpus))}"']
    if brand == "AMD":
        return [
            *("--device", "/dev/kfd", "--device", "/dev/dri"),
            *("--group-add", "video", "--group-add", "render"),
            *("--security-opt", "seccomp=unconfined"),
        ]
    return []


def _device_options(devices: tuple[str, ...]) -> list[str]:
    words = []
    for device in devices:
        words += ["--device", device]
    if any(device.startswith("/dev/infiniband") for device in devices):
        # RDMA pins memory; these are asked for only where it is used, since a sandboxed or
        # rootless daemon refuses them.
        words += ["--cap-add", "IPC_LOCK", "--ulimit", "memlock=-1"]
        words += ["--ulimit", "stack=67108864"]
    return words
