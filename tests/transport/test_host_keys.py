"""A host's key: known, new, changed, revoked, vouched for, and what is said of it."""

from __future__ import annotations

import stat
import subprocess
from collections.abc import Callable

import pytest

from tests.transport.conftest import Client, error_of
from tests.transport.sshd import Sshd


def test_a_new_key_is_refused_with_its_fingerprint(
    make_sshd: Callable[..., Sshd], client: Client
) -> None:
    server = make_sshd(trusted=False)
    error = error_of(client.pool(server.host()))
    assert str(error) == (
        f"node01 (127.0.0.1:{server.port}): the host's key is not known yet\n"
        f"  why: it shows ssh-ed25519 {server.fingerprint()}, "
        f"and [127.0.0.1]:{server.port} is not in {client.known_hosts}\n"
        "  do:  compare it with `ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub` on the host, "
        "then run again with --accept-new-host-keys"
    )
    assert server.connections() == 1
    assert not client.known_hosts.exists()


def test_a_new_key_is_added_when_that_is_asked(
    make_sshd: Callable[..., Sshd], client: Client
) -> None:
    server = make_sshd(trusted=False)
    hosts = [server.host(name) for name in ("node01", "node02", "node03")]
    pool = client.pool(*hosts, accept_new_host_keys=True)
    results = pool.map([h.name for h in hosts], lambda c: c.run(["true"]).ok)
    assert set(results.values()) == {True}
    assert client.known_hosts.read_text() == server.known_hosts_line()
    assert stat.S_IMODE(client.known_hosts.stat().st_mode) == 0o600
    assert client.pool(server.host()).connection("node01").run(["true"]).ok


@pytest.mark.parametrize("accept", [False, True])
def test_a_changed_key_is_never_accepted(sshd: Sshd, client: Client, accept: bool) -> None:
    old = sshd.fingerprint()
    sshd.stop()
    sshd.new_host_keys()
    sshd.start()
    before = client.known_hosts.read_text()
    error = error_of(client.pool(sshd.host(), accept_new_host_keys=accept))
    assert str(error) == (
        f"node01 (127.0.0.1:{sshd.port}): the host's key has CHANGED: "
        "this may be another machine, or somebody in between\n"
        f"  why: it shows ssh-ed25519 {sshd.fingerprint()}, "
        f"but {client.known_hosts}:1 has ssh-ed25519 {old}\n"
        "  do:  only if the host was reinstalled: "
        f"ssh-keygen -R '[127.0.0.1]:{sshd.port}' -f {client.known_hosts}, "
        "then --accept-new-host-keys"
    )
    assert client.known_hosts.read_text() == before
    mend = str(error.hint).split(": ", 1)[1].rsplit(", then", 1)[0]
    subprocess.run(["sh", "-c", mend], check=True, capture_output=True)
    pool = client.pool(sshd.host(), accept_new_host_keys=True)
    assert pool.connection("node01").run(["true"]).ok


def test_a_host_shows_the_key_it_is_known_by(
    make_sshd: Callable[..., Sshd], client: Client
) -> None:
    server = make_sshd(trusted=False, key_kinds=("rsa", "ecdsa", "ed25519"))
    for kind in ("rsa", "ecdsa", "ed25519"):
        name = f"[{server.address}]:{server.port}"
        client.known_hosts.write_text(f"{name} {server.host_key(kind)}\n")
        assert client.pool(server.host()).connection("node01").run(["true"]).ok


def test_a_key_of_another_type_than_the_known_one_counts_as_changed(
    make_sshd: Callable[..., Sshd], client: Client
) -> None:
    server = make_sshd(trusted=False, key_kinds=("ed25519",))
    other = make_sshd(trusted=False, start=False, key_kinds=("ecdsa",))
    client.known_hosts.write_text(f"[127.0.0.1]:{server.port} {other.host_key('ecdsa')}\n")
    error = error_of(client.pool(server.host(), accept_new_host_keys=True))
    assert "CHANGED" in error.what


def test_hashed_names_are_understood(sshd: Sshd, client: Client) -> None:
    command = ["ssh-keygen", "-H", "-f", str(client.known_hosts)]
    subprocess.run(command, check=True, capture_output=True)
    assert "127.0.0.1" not in client.known_hosts.read_text()
    assert client.pool(sshd.host()).connection("node01").run(["true"]).ok


def test_a_revoked_key_is_refused(sshd: Sshd, client: Client) -> None:
    client.known_hosts.write_text(f"{sshd.known_hosts_line()}@revoked * {sshd.host_key()}\n")
    error = error_of(client.pool(sshd.host(), accept_new_host_keys=True))
    assert error.what == "the host's key is revoked"
    assert f"@revoked at {client.known_hosts}:2" in str(error.why)


def test_a_certificate_authority_cannot_vouch_here(
    make_sshd: Callable[..., Sshd], client: Client
) -> None:
    server = make_sshd(trusted=False)
    client.known_hosts.write_text(f"# comment\n@cert-authority * {server.host_key()}\n")
    error = error_of(client.pool(server.host()))
    assert error.what == "the host's key is not known yet"
    assert f"certificate authority at {client.known_hosts}:2 cannot vouch" in str(error.why)


def test_a_host_key_alias_is_the_name_in_known_hosts(sshd: Sshd, client: Client) -> None:
    client.known_hosts.write_text(f"the-node {sshd.host_key()}\n")
    host = sshd.host(common_args=("-o", "HostKeyAlias=The-Node"))
    assert client.pool(host).connection("node01").run(["true"]).ok


def test_checking_can_be_switched_off_for_a_host(
    make_sshd: Callable[..., Sshd], client: Client
) -> None:
    server = make_sshd(trusted=False)
    words = ("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null")
    host = server.host(common_args=words)
    assert client.pool(host).connection("node01").run(["true"]).ok
