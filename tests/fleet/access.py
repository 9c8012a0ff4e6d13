"""Keys, and the files that say how to reach the hosts: known_hosts, ssh_config, inventory."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.fleet.cache import (
    VLLM_CACHE,
    compiled_directory,
    environment_directory,
    models_directory,
)
from tests.fleet.commands import run
from tests.fleet.record import HostRecord

SSHD_CONFIG = """\
HostKey /etc/ssh/ssh_host_ed25519_key
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
# PAM would set limits and audit ids that a container is not allowed to set.
UsePAM no
UseDNS no
PrintMotd no
AcceptEnv LANG LC_*
MaxSessions 100
MaxStartups 200
PidFile /run/sshd.pid
Subsystem sftp internal-sftp
"""

# What real vLLM on a CPU needs to be told (two cores may have to serve several engines).
CPU_ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_WORKER_MULTIPROC_METHOD": "fork",  # see environment.py
}


@dataclass(frozen=True)
class AccessFiles:
    """Where the files lie that a client needs."""

    directory: Path

    @property
    def key(self) -> Path:
        return self.directory / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        return self.directory / "known_hosts"

    @property
    def ssh_config(self) -> Path:
        return self.directory / "ssh_config"

    @property
    def inventory(self) -> Path:
        return self.directory / "inventory.yml"


def volumes() -> list[str]:
    """The bind mounts that make the image's `vllm` work, read-only, and its cache, which halves
    the time of a start."""
    environment, compiled = environment_directory(), compiled_directory()
    compiled.mkdir(parents=True, exist_ok=True)
    return [
        "/usr:/usr:ro",
        f"{environment}:{environment}:ro",
        f"{models_directory()}:/models:ro",
        f"{compiled}:{VLLM_CACHE}",
    ]


def make_key(path: Path, comment: str) -> str:
    """Make a key pair without a passphrase (ssh-keygen gives it 0600); return the public half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", path])
    return path.with_suffix(".pub").read_text().strip()


def furnish(host: Path, name: str, authorized: str, hosts: Mapping[str, str]) -> str:
    """Write a host's own /etc and /root files; return its public host key.

    They lie in the upper layer of its root, over the machine's files of the same names.
    """
    etc, ssh, home = (host / "upper" / part for part in ("etc", "etc/ssh", "root/.ssh"))
    for directory, mode in (
        (etc, 0o755),
        (ssh, 0o755),
        (host / "upper/root", 0o700),
        (home, 0o700),
    ):
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(mode)
    # A home of its own, without this machine's login files: they may be slow, or hold locks.
    os.setxattr(host / "upper/root", "trusted.overlay.opaque", b"y")
    public = make_key(ssh / "ssh_host_ed25519_key", name)
    (ssh / "sshd_config").write_text(SSHD_CONFIG)
    (home / "authorized_keys").write_text(authorized + "\n")
    (home / "authorized_keys").chmod(0o600)
    (etc / "hostname").write_text(name + "\n")
    names = "".join(f"{address} {other}\n" for other, address in hosts.items())
    (etc / "hosts").write_text(f"127.0.0.1 localhost\n{names}")
    # sshd without PAM refuses an account whose password field begins with "!", even by key.
    accounts = Path("/etc/shadow").read_text().splitlines()
    others = [line for line in accounts if not line.startswith("root:")]
    shadow = etc / "shadow"
    shadow.write_text("\n".join(["root:*:19000:0:99999:7:::", *others]) + "\n")
    shadow.chmod(0o640)
    return public


def write_known_hosts(files: AccessFiles, keys: Mapping[str, str]) -> None:
    """`keys`: an address and its host key (algorithm and key, a comment may follow)."""
    lines = [f"{address} {' '.join(key.split()[:2])}\n" for address, key in keys.items()]
    files.known_hosts.write_text("".join(lines))


def write_ssh_config(
    files: AccessFiles, hosts: Sequence[HostRecord], jumps: Mapping[str, str]
) -> None:
    """For `ssh -F`; `jumps` names the host through which another is reached."""
    blocks = []
    for host in hosts:
        lines = [f"Host {host.name}", f"    HostName {host.links[0].address}"]
        if host.name in jumps:
            lines.append(f"    ProxyJump {jumps[host.name]}")
        blocks.append("\n".join(lines))
    common = [
        "Host *",
        "    User root",
        f"    IdentityFile {files.key}",
        "    IdentitiesOnly yes",
        f"    UserKnownHostsFile {files.known_hosts}",
        "    GlobalKnownHostsFile none",
        "    StrictHostKeyChecking yes",
        "    ConnectTimeout 10",
    ]
    files.ssh_config.write_text("\n\n".join([*blocks, "\n".join(common)]) + "\n")


def write_inventory(
    files: AccessFiles, hosts: Sequence[HostRecord], jumps: Mapping[str, str]
) -> None:
    variables: dict[str, Any] = {
        "ansible_user": "root",
        "ansible_port": 22,
        "ansible_ssh_private_key_file": str(files.key),
        "ansible_ssh_common_args": f"-o UserKnownHostsFile={files.known_hosts}",
        "orc_hardware": "cpu",
        "orc_gpus": [0],
        "orc_volumes": volumes(),
        "orc_env": CPU_ENVIRONMENT,
    }
    addresses = {host.name: host.links[0].address for host in hosts}
    entries: dict[str, dict[str, str]] = {}
    for host in hosts:
        own = {
            "ansible_host": host.links[0].address,
            "orc_interface": "eth0",
            "orc_address": host.links[0].address,
        }
        if way := way_to(host.name, jumps):
            through = ",".join(f"root@{addresses[jump]}" for jump in way)
            common = variables["ansible_ssh_common_args"]
            own["ansible_ssh_common_args"] = f"{common} -o ProxyJump={through}"
        entries[host.name] = own
    document = {"all": {"vars": variables, "hosts": entries}}
    files.inventory.write_text(yaml.safe_dump(document, sort_keys=False))


def way_to(host: str, jumps: Mapping[str, str]) -> list[str]:
    """The hosts to jump over, the nearest first."""
    way: list[str] = []
    while host in jumps:
        host = jumps[host]
        way.insert(0, host)
    return way
