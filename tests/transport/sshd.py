"""A real sshd on a free port of the loopback, with its own keys and configuration."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.inventory.host import ConnectionSettings, Host, HostSettings

BINARY = shutil.which("sshd") or "/usr/sbin/sshd"
USER = pwd.getpwuid(os.getuid()).pw_name


def make_key(path: Path, passphrase: str = "", kind: str = "ed25519") -> Path:
    command = ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", path.name, "-f", str(path)]
    subprocess.run(command, check=True)
    return path


def free_port(address: str = "127.0.0.1") -> int:
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


@dataclass
class Sshd:
    """One server. `config` is more lines of sshd_config. `prefix` goes before the command."""

    directory: Path
    authorized: list[Path]
    address: str = "127.0.0.1"
    config: str = ""
    key_kinds: tuple[str, ...] = ("ed25519",)
    prefix: tuple[str, ...] = ()
    port: int = 0
    process: subprocess.Popen[bytes] | None = None
    host_keys: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True)
        self.port = self.port or free_port(self.address)
        self.new_host_keys()
        keys = "".join(Path(f"{path}.pub").read_text() for path in self.authorized)
        (self.directory / "authorized_keys").write_text(keys)

    @property
    def log(self) -> Path:
        return self.directory / "log"

    def new_host_keys(self) -> None:
        for path in self.host_keys:
            path.unlink()
            Path(f"{path}.pub").unlink()
        self.host_keys = [
            make_key(self.directory / f"host_{kind}", kind=kind) for kind in self.key_kinds
        ]

    def start(self, *, wait: bool = True) -> Sshd:
        if os.getuid() == 0:  # where Debian's sshd separates its privileges
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        host_keys = "\n".join(f"HostKey {path}" for path in self.host_keys)
        config = self.directory / "sshd_config"
        config.write_text(
            f"""Port {self.port}
ListenAddress {self.address}
{host_keys}
AuthorizedKeysFile {self.directory}/authorized_keys
PidFile none
StrictModes no
UsePAM no
PermitRootLogin yes
LogLevel VERBOSE
MaxStartups 200
{self.config}
KbdInteractiveAuthentication no
PasswordAuthentication no
"""  # the first value of a keyword counts, of MaxStartups the last
        )
        self.process = subprocess.Popen(
            [*self.prefix, BINARY, "-D", "-f", str(config), "-E", str(self.log)],
            start_new_session=True,
        )
        if wait:
            self.wait_until_up()
        return self

    def wait_until_up(self) -> None:
        for _ in range(200):
            if self.log.exists() and "Server listening" in self.log.read_text():
                return
            assert self.process and self.process.poll() is None, self.log.read_text()
            time.sleep(0.02)
        raise AssertionError(f"sshd does not come up: {self.log.read_text()}")

    def stop(self) -> None:
        if self.process and self.process.poll() is None:
            for pid in self.session_pids():
                os.kill(pid, signal.SIGKILL)
            self.process.terminate()
            self.process.wait(10)
        self.process = None

    def session_pids(self) -> list[int]:
        """The processes that serve connections, children of the listener."""
        assert self.process
        text = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(word) for word in text.split()]

    def connections(self) -> int:
        """How many TCP connections there have been."""
        return self.log.read_text().count("Connection from ")

    def sessions(self) -> int:
        """How many commands have been started."""
        return self.log.read_text().count("Starting session: ")

    def host_key(self, kind: str = "ed25519") -> str:
        """`type blob` of its public key."""
        return " ".join((self.directory / f"host_{kind}.pub").read_text().split()[:2])

    def fingerprint(self, kind: str = "ed25519") -> str:
        path = self.directory / f"host_{kind}.pub"
        done = subprocess.run(
            ["ssh-keygen", "-lf", str(path)], check=True, capture_output=True, text=True
        )
        return done.stdout.split()[1]

    def known_hosts_line(self) -> str:
        return f"[{self.address}]:{self.port} {self.host_key(self.key_kinds[0])}\n"

    def host(self, name: str = "node01", **settings: object) -> Host:
        """An inventory host that means this server."""
        values: dict[str, object] = {"address": self.address, "port": self.port, "user": USER}
        return Host(name, ConnectionSettings(**{**values, **settings}), HostSettings())  # type: ignore[arg-type]
