"""Options of `docker run` and of `docker inspect` come to the same, where they are the same."""

from __future__ import annotations

import pytest

from orchestrator.runtime.container import Container
from orchestrator.runtime.docker_options import options_of_inspect, options_of_run
from orchestrator.runtime.docker_run import run_command

RUN = ["docker", "run"]


@pytest.mark.parametrize(
    ("words", "host"),
    [
        (["--memory", "4g"], {"Memory": 4 << 30}),
        (["-m", "512m", "--memory-swap=1g"], {"Memory": 512 << 20, "MemorySwap": 1 << 30}),
        (["--cpus", "1.50"], {"NanoCpus": 1_500_000_000}),
        (["--shm-size=64g"], {"ShmSize": 64 << 30}),
        (["--device", "/dev/fuse"], {"Devices": [
            {"PathOnHost": "/dev/fuse", "PathInContainer": "/dev/fuse", "CgroupPermissions": "rwm"}
        ]}),
        (["--device=/dev/a:/dev/b:r"], {"Devices": [
            {"PathOnHost": "/dev/a", "PathInContainer": "/dev/b", "CgroupPermissions": "r"}
        ]}),
        (["--gpus", '"device=0,1"'], {"DeviceRequests": [
            {"Driver": "", "Count": 0, "DeviceIDs": ["0", "1"], "Capabilities": [["gpu"]]}
        ]}),
        (["--gpus", "all"], {"DeviceRequests": [{"Driver": "", "Count": -1, "DeviceIDs": None}]}),
        (["--device", "nvidia.com/gpu=0"], {"DeviceRequests": [
            {"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=0"]}
        ]}),
        (["--cap-add", "IPC_LOCK"], {"CapAdd": ["CAP_IPC_LOCK"]}),
        (["--ulimit", "memlock=-1", "--ulimit", "stack=5:6"], {"Ulimits": [
            {"Name": "stack", "Soft": 5, "Hard": 6}, {"Name": "memlock", "Soft": -1, "Hard": -1}
        ]}),
        (["--security-opt", "seccomp=unconfined"],
         {"SecurityOpt": ["seccomp=unconfined", "label=disable"]}),
        (["-v", "/a:/b", "--volume=/c:/d:ro"], {"Binds": ["/a:/b", "/c:/d:ro"]}),
        (["--privileged", "--pid", "host"], {"Privileged": True, "PidMode": "host"}),
        (["--tmpfs", "/x:size=1g"], {"Tmpfs": {"/x": "size=1g"}}),
        (["--restart", "on-failure:3"],
         {"RestartPolicy": {"Name": "on-failure", "MaximumRetryCount": 3}}),
    ],
)  # fmt: skip
def test_an_option_and_what_docker_makes_of_it_are_equal(
    words: list[str], host: dict[str, object]
) -> None:
    planned = options_of_run([*RUN, *words, "--entrypoint", "vllm", "image", "--memory", "9g"])
    running = options_of_inspect({"RestartPolicy": {"Name": "no"}, **host}, {})
    assert planned.lists == running.lists
    assert {"restart": "no", **planned.scalars} == running.scalars
    assert planned.unknown == ()


def test_every_option_that_orc_itself_gives_is_compared() -> None:
    for brand in ("NVIDIA", "AMD", "CPU"):
        container = Container(
            name="orc-a-r0-n0",
            image="vllm",
            command=("vllm", "serve", "m", "--port", "1"),
            labels={"orc.deployment": "a"},
            env_file="x",
            files={"/etc/store.json": "{}"},
            brand=brand,
            gpus=(0, 1),
            devices=("/dev/infiniband",),
        )
        options = options_of_run(run_command(container))
        assert options.unknown == ()
        assert options.labels == {"orc.deployment": "a"}
        assert options.scalars["stop-timeout"] == "60"


def test_an_option_that_is_not_known_is_named() -> None:
    words = [*RUN, "--blkio-weight", "300", "--dns=1.1.1.1", "image"]
    assert options_of_run(words).unknown == ("--blkio-weight", "--dns")
