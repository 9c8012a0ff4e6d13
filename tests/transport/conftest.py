"""Real sshd's, and the configuration of the client that talks to them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from orchestrator.errors import UnreachableError
from orchestrator.transport.pool import ConnectionPool
from orchestrator.transport.ssh_config import SshOptions
from tests.transport.sshd import BINARY, Sshd, make_key


@dataclass
class Client:
    """A client's ~/.ssh, elsewhere: its key, known_hosts and config."""

    directory: Path
    key: Path
    pools: list[ConnectionPool] = field(default_factory=list)

    @property
    def known_hosts(self) -> Path:
        return self.directory / "known_hosts"

    @property
    def config(self) -> Path:
        return self.directory / "config"

    def write_config(self, text: str = "", *, identity: bool = True) -> None:
        """`text` before what all tests need. Without `identity` no key is offered."""
        lines = [
            text,
            "Host *",
            f"  UserKnownHostsFile {self.known_hosts}",
            "  GlobalKnownHostsFile /dev/null",
            "  IdentityAgent none",
            f"  IdentityFile {self.key if identity else '/nonexistent'}",
        ]
        self.config.write_text("\n".join(lines) + "\n")

    def trust(self, *servers: Sshd) -> None:
        with self.known_hosts.open("a") as stream:
            stream.writelines(server.known_hosts_line() for server in servers)

    def options(self, **changes: object) -> SshOptions:
        return SshOptions(**{"config_file": self.config, **changes})  # type: ignore[arg-type]

    def pool(self, *hosts: object, **changes: object) -> ConnectionPool:
        pool = ConnectionPool(hosts, self.options(**changes))  # type: ignore[arg-type]
        self.pools.append(pool)
        return pool


def error_of(pool: ConnectionPool, name: str = "node01") -> UnreachableError:
    with pytest.raises(UnreachableError) as caught:
        pool.connection(name).run(["true"])
    assert caught.value.exit_status == 4
    return caught.value


@pytest.fixture(scope="session", autouse=True)
def _sshd_is_there() -> None:
    if Path(BINARY).exists():
        return
    if os.environ.get("CI") == "true":
        pytest.fail("no sshd: apt-get install openssh-server")
    pytest.skip("no sshd: apt-get install openssh-server")


@pytest.fixture(scope="session")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_key(tmp_path_factory.mktemp("keys") / "id_ed25519")


@pytest.fixture
def client(tmp_path: Path, key: Path) -> Iterator[Client]:
    directory = tmp_path / "client"
    directory.mkdir(mode=0o700)
    client = Client(directory, key)
    client.write_config()
    yield client
    for pool in client.pools:
        pool.close()


@pytest.fixture
def make_sshd(tmp_path: Path, client: Client) -> Iterator[Callable[..., Sshd]]:
    """Makes servers that the client's key may log in to; `trusted` ones are in known_hosts."""
    servers: list[Sshd] = []

    def make(*, trusted: bool = True, start: bool = True, **settings: object) -> Sshd:
        settings.setdefault("authorized", [client.key])
        server = Sshd(tmp_path / f"sshd{len(servers)}", **settings)  # type: ignore[arg-type]
        servers.append(server)
        if trusted:
            client.trust(server)
        return server.start() if start else server

    yield make
    for server in servers:
        server.stop()


@pytest.fixture
def sshd(make_sshd: Callable[..., Sshd]) -> Sshd:
    return make_sshd()
