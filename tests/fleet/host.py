"""One host of a fleet: a process tree with a network, files, users' keys and daemons of its own."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fleet import names, network
from tests.fleet.cache import cache_directory
from tests.fleet.commands import FleetError, run
from tests.fleet.processes import Process, find, in_cgroups
from tests.fleet.record import HostRecord

# Not this process's environment: its proxies, paths and tokens are none of the hosts' business.
ENVIRONMENT: Mapping[str, str] = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "USER": "root",
    "LANG": "C.UTF-8",
}


@dataclass(frozen=True)
class Container:
    id: str
    name: str
    image: str
    state: str
    """created, running, restarting, exited, dead, ..."""
    exit_code: int
    labels: Mapping[str, str]


@dataclass(frozen=True)
class Host:
    name: str
    fleet: str
    addresses: tuple[str, ...]
    init: Process

    @property
    def address(self) -> str:
        return self.addresses[0]

    @property
    def netns(self) -> str:
        return names.network_namespace(self.fleet, self.name)

    @property
    def directory(self) -> Path:
        return names.directory(self.fleet) / self.name

    @property
    def docker_host(self) -> str:
        """For a docker client outside; inside the host it is the usual /run/docker.sock."""
        return f"unix://{self.directory}/run/docker.sock"

    @property
    def cgroup(self) -> str:
        """Where this host's containers are; a cgroup has no namespace that could tell."""
        return f"{names.cgroup(self.fleet)}/{self.name}"

    def run(
        self,
        command: Sequence[str | Path],
        *,
        check: bool = True,
        stdin: str | None = None,
        timeout: float | None = 120,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program on the host, past sshd; raises FleetError when it fails."""
        inside = [*self._enter(), *command]
        return run(inside, check=check, stdin=stdin, timeout=timeout, env=ENVIRONMENT)

    def docker(self, *words: str, timeout: float = 120) -> str:
        return self.run(["docker", *words], timeout=timeout).stdout.strip()

    def containers(self) -> list[Container]:
        """All containers, running or not, oldest first."""
        ids = self.docker("ps", "--all", "--quiet", "--no-trunc").split()
        if not ids:
            return []
        shown: list[dict[str, Any]] = json.loads(self.docker("inspect", *ids))
        return [
            Container(
                id=one["Id"],
                name=one["Name"].lstrip("/"),
                image=one["Config"]["Image"],
                state=one["State"]["Status"],
                exit_code=one["State"]["ExitCode"],
                labels=one["Config"]["Labels"] or {},
            )
            for one in sorted(shown, key=lambda one: str(one["Created"]))
        ]

    def processes(self) -> list[Process]:
        """The processes inside this host's containers, by the root namespace's pids."""
        return in_cgroups(self.cgroup)

    def start_sshd(self) -> None:
        self._start("sshd", ["/usr/sbin/sshd", "-D", "-e"])
        self.wait_for("sshd", lambda: (self.directory / "run" / "sshd.pid").exists())

    def stop_sshd(self) -> None:
        """Stop listening and cut every connection there is."""
        self.run(["sh", "-c", "kill $(cat /run/sshd.pid); rm -f /run/sshd.pid"])
        self.run(["pkill", "-x", "sshd"], check=False)  # this host's own: it has its own pids

    def start_dockerd(self, *, wait: bool = True) -> None:
        registry = (self.directory / "registry").read_text().strip()
        command = ["dockerd", "--iptables=false", "--bridge=none", "--insecure-registry", registry]
        # cgroupfs, since there is no systemd here to ask; the parent says whose a process is.
        command += ["--exec-opt", "native.cgroupdriver=cgroupfs", f"--cgroup-parent=/{self.cgroup}"]
        self._start("dockerd", command)
        if wait:
            self.wait_for_dockerd()

    def wait_for_dockerd(self) -> None:
        def answers() -> bool:
            return self.run(["docker", "version"], check=False).returncode == 0

        self.wait_for("dockerd", answers)

    def stop_dockerd(self, *, crash: bool = False) -> None:
        """Stop dockerd, which stops its containers first; a crash leaves them running."""
        pid = self.run(["cat", "/run/docker.pid"]).stdout.strip()
        self.run(["kill", "-KILL" if crash else "-TERM", pid])
        self.wait_for("the end of dockerd", lambda: self._ended(pid))
        self.run(["rm", "-f", "/run/docker.pid", "/run/docker.sock"])

    def _ended(self, pid: str) -> bool:
        return self.run(["kill", "-0", pid], check=False).returncode != 0

    def wait_for(self, what: str, happened: Callable[[], bool], seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not happened():
            if time.monotonic() > deadline:
                log = self.directory / f"{what}.log"
                said = "\n".join(log.read_text().splitlines()[-15:]) if log.exists() else ""
                raise FleetError(f"{self.name}: no {what} after {seconds:.0f} s\n{said}".rstrip())
            time.sleep(0.05)

    def _enter(self) -> list[str]:
        if not self.init.alive:
            raise FleetError(f"{self.name}: the host is down (its process {self.init.pid} ended)")
        spaces = ["--mount", "--uts", "--ipc", "--net", "--pid"]
        return ["nsenter", f"--target={self.init.pid}", *spaces, "--"]

    def _start(self, name: str, command: Sequence[str]) -> None:
        """Start a daemon of the host; it outlives this process and ends with the host."""
        with (self.directory / f"{name}.log").open("a") as log:
            subprocess.Popen(
                [*self._enter(), *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=ENVIRONMENT,
                start_new_session=True,
            )


def boot(fleet: str, record: HostRecord) -> Process:
    """Make a host's namespaces, start its first process and connect its cables."""
    directory = names.directory(fleet) / record.name
    namespace = names.network_namespace(fleet, record.name)
    network.make_namespace(namespace)
    for part in ("upper", "work", "root", "run/sshd", "docker"):
        (directory / part).mkdir(parents=True, exist_ok=True)
    script = Path(__file__).with_name("host_init.sh")
    # By nsenter and not `ip netns exec`, which remounts /sys and hides the cgroups.
    into = ["nsenter", f"--net={network.namespace_path(namespace)}"]
    apart = ["unshare", "--mount", "--uts", "--ipc", "--pid", "--fork"]
    first = ["sh", script, record.name, directory, cache_directory(), names.ROOT]
    with (directory / "boot.log").open("a") as log:
        outside = subprocess.Popen(
            [str(word) for word in (*into, *apart, *first)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=ENVIRONMENT,
            start_new_session=True,
        )
    deadline = time.monotonic() + 20
    while not (directory / "run" / "booted").exists():
        if outside.poll() is not None or time.monotonic() > deadline:
            said = (directory / "boot.log").read_text()
            raise FleetError(f"{record.name} did not boot: {said}")
        time.sleep(0.02)
    return _first_process(outside.pid, record.name)


def _first_process(outside: int, name: str) -> Process:
    """The child of `unshare`, once it is tini."""
    children = Path(f"/proc/{outside}/task/{outside}/children")
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        pids = children.read_text().split()
        process = find(int(pids[0])) if pids else None
        if process and process.command[0].startswith("tini"):
            return process
        time.sleep(0.01)
    raise FleetError(f"{name}: its first process cannot be found")


def connect(fleet: str, position: int, record: HostRecord) -> None:
    for number, link in enumerate(record.links):
        network.connect(
            names.network_namespace(fleet, record.name),
            f"eth{number}",
            names.cable(fleet, position, number),
            names.bridge(fleet, link.bridge),
            link.address,
        )
