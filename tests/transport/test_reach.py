"""The way to a host: retries, configuration, jump hosts, and what is said when it fails."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.errors import InputError, OrcError
from orchestrator.inventory.host import ConnectionSettings, Host, HostSettings
from orchestrator.transport.ssh_config import resolve
from tests.transport.conftest import Client, error_of
from tests.transport.sshd import USER, Sshd, free_port


def named(name: str, *common_args: str, **settings: object) -> Host:
    values = {"address": name, "common_args": common_args, **settings}
    return Host(name, ConnectionSettings(**values), HostSettings())  # type: ignore[arg-type]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The attempts to connect follow one another without a pause."""
    monkeypatch.setattr("orchestrator.transport.ssh_connect._FIRST_PAUSE", 0.01)
    monkeypatch.setattr("orchestrator.transport.ssh_connect._JITTER", 0.01)


# -- failures ------------------------------------------------------------------------------


def test_an_sshd_that_comes_up_late_is_reached(
    make_sshd: Callable[..., Sshd], client: Client
) -> None:
    server = make_sshd(start=False)
    timer = threading.Timer(2, lambda: server.start(wait=False))
    timer.start()
    assert client.pool(server.host()).connection("node01").run(["true"]).ok
    timer.join()


def test_a_refused_connection_says_where(client: Client) -> None:
    port = free_port()
    pool = client.pool(named("127.0.0.1", port=port), connect_timeout=0.5)
    assert str(error_of(pool, "127.0.0.1")) == (
        f"127.0.0.1 (127.0.0.1:{port}): connection refused\n"
        "  why: Connection refused\n"
        f"  do:  is sshd running there and listening on port {port}? See ansible_port"
    )


def test_a_host_that_does_not_answer_is_given_up_in_time(client: Client) -> None:
    """A full backlog drops further connections as a firewall does."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        port = server.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        pool = client.pool(named("127.0.0.1", port=port), connect_timeout=0.5)
        error = error_of(pool, "127.0.0.1")
        for one in waiting:
            one.close()
    assert error.what == "no answer within 0.5 s"


def test_a_server_that_is_no_sshd_is_named_so(client: Client) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        pool = client.pool(named("127.0.0.1", port=port), connect_timeout=0.3)
        error = error_of(pool, "127.0.0.1")
    assert error.what == "the connection was closed before SSH began"
    assert error.hint == f"is it an sshd that listens on port {port}? Is MaxStartups reached?"


def test_a_host_that_failed_is_tried_with_less_patience_for_a_while(
    client: Client, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each phase of a run that ends because its host dropped off asks the host again."""
    calls: list[float] = []

    def hang_up(server: socket.socket) -> None:
        while True:
            try:
                server.accept()[0].close()
            except OSError:
                return
            calls.append(time.monotonic())

    def attempts() -> int:
        before = len(calls)
        error = error_of(pool, "127.0.0.1")
        assert error.what == "the connection was closed before SSH began"
        return len(calls) - before

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=hang_up, args=(server,), daemon=True).start()
        pool = client.pool(named("127.0.0.1", port=server.getsockname()[1]))
        assert attempts() == 5
        assert attempts() == 0
        monkeypatch.setattr("orchestrator.transport.ssh_connect._TRIED_JUST_NOW", 0.0)
        assert attempts() == 1
        monkeypatch.setattr("orchestrator.transport.ssh_connect._TRIED_OF_LATE", 0.0)
        assert attempts() == 5
        server.shutdown(socket.SHUT_RDWR)


def test_an_unknown_host_name_is_not_tried_again(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Were it tried again, the test would wait until its own time limit.
    monkeypatch.setattr("orchestrator.transport.ssh_connect._FIRST_PAUSE", 10_000)
    error = error_of(client.pool(named("no-such-host.invalid")), "no-such-host.invalid")
    assert error.what == "unknown host name 'no-such-host.invalid'"


def test_connections_that_sshd_drops_by_maxstartups_are_tried_again(
    make_sshd: Callable[..., Sshd], client: Client
) -> None:
    server = make_sshd(config="MaxStartups 1")
    with socket.create_connection((server.address, server.port)) as idler:
        assert idler.recv(20).startswith(b"SSH-2.0")
        threading.Timer(1.2, idler.shutdown, (socket.SHUT_RDWR,)).start()
        assert client.pool(server.host()).connection("node01").run(["true"]).ok
    assert "MaxStartups" in server.log.read_text()


def test_twelve_hosts_in_parallel_use_one_connection_each(sshd: Sshd, client: Client) -> None:
    hosts = [sshd.host(f"n{number}") for number in range(12)]
    results = client.pool(*hosts).map([h.name for h in hosts], lambda c: c.run(["true"]).ok)
    assert set(results.values()) == {True}
    assert sshd.connections() == 12


# -- ssh's configuration -------------------------------------------------------------------


@pytest.fixture(params=["ssh -G", "paramiko"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With an ssh client, and on a machine without one."""
    if request.param == "paramiko":
        monkeypatch.setattr(shutil, "which", lambda _: None)
    elif not shutil.which("ssh"):
        pytest.skip("no ssh client")
    return str(request.param)


def test_host_match_and_include_are_honoured(parser: str, sshd: Sshd, client: Client) -> None:
    included = client.directory / "more"
    included.mkdir()
    (included / "one.conf").write_text(f"Host alias\n  HostName 127.0.0.1\n  Port {sshd.port}\n")
    client.write_config(
        f"Include {included}/*.conf\n"
        f"Match host 127.0.0.1 originalhost alias\n  User {USER}\n"
        "Host other\n  Port 1\n"
    )
    pool = client.pool(named("alias"))
    assert pool.connection("alias").run(["true"]).ok
    target = resolve(named("alias"), client.options())
    assert (target.hostname, target.port, target.user) == ("127.0.0.1", sshd.port, USER)


def test_inventory_variables_go_before_the_configuration(parser: str, client: Client) -> None:
    client.write_config(
        "Host n\n  HostName 192.0.2.1\n  Port 1111\n  User somebody\n  IdentityFile /configured\n"
        "  ConnectTimeout 7\n  ServerAliveInterval 20\n"
    )
    host = named("n", port=2222, user="ops", private_key_file="/given")
    target = resolve(host, client.options())
    assert (target.hostname, target.port, target.user) == ("192.0.2.1", 2222, "ops")
    assert target.identity_files[:2] == (Path("/given"), Path("/configured"))
    assert target.chosen_keys == (Path("/given"),)
    assert (target.connect_timeout, target.keepalive_interval) == (7, 20)
    assert target.keepalive_limit == 60


def test_common_args_are_understood(parser: str, tmp_path: Path, client: Client) -> None:
    other = tmp_path / "other_config"
    other.write_text("Host n\n  HostName 192.0.2.9\n")
    host = named(
        "n", "-F", str(other), "-i/k1", "-oPort=2200", "-l", "ops", "-4", "-o", "User=late",
        "-o", "StrictHostKeyChecking=accept-new", "-o", "UserKnownHostsFile=/a /b",
        "-o", "ProxyCommand=nc -X 5 %h %p", "-o", "ControlMaster=auto", "-C",
    )  # fmt: skip
    target = resolve(host, client.options())
    assert (target.hostname, target.port, target.user) == ("192.0.2.9", 2200, "ops")
    assert target.chosen_keys == (Path("/k1"),)
    assert target.host_key_checking == "accept-new"
    assert target.user_known_hosts == (Path("/a"), Path("/b"))
    assert target.proxy_command == "nc -X 5 192.0.2.9 2200"
    assert target.family == socket.AF_INET
    assert target.compression


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-L", "1:a:2"), "-L in ansible_ssh_common_args cannot be honoured"),
        (("-o", "ForwardAgent=yes"), "-o ForwardAgent=yes in ansible_ssh_common_args cannot"),
        (("-o", "ProxyJmp=a"), "did you mean 'proxyjump'"),
        (("-p",), "-p in ansible_ssh_common_args cannot be honoured\n  why: it needs a value"),
        (("node02",), "node02 in ansible_ssh_common_args cannot be honoured"),
        (("-p", "nonsense"), "Bad port 'nonsense'"),
    ],
)
def test_an_argument_that_would_do_nothing_is_an_error(
    words: tuple[str, ...], message: str, client: Client
) -> None:
    with pytest.raises(InputError) as caught:
        resolve(named("n", *words), client.options())
    assert message in str(caught.value)
    assert str(caught.value).startswith("host n: ")


def test_a_broken_configuration_is_reported_with_its_line(client: Client) -> None:
    client.config.write_text("Host *\n  Nonsense yes\n")
    with pytest.raises(InputError) as caught:
        resolve(named("n"), client.options())
    assert f"{client.config}: line 2: Bad configuration option: nonsense" in str(caught.value)


# -- ways through others -------------------------------------------------------------------


@pytest.fixture
def chain(make_sshd: Callable[..., Sshd]) -> tuple[Sshd, Sshd, Sshd]:
    """Two jump hosts and a target. Each lets only the one before it in."""
    first = make_sshd(address="127.0.0.2")
    second = make_sshd(address="127.0.0.3")
    target = make_sshd(address="127.0.0.4")
    for server, allowed in ((first, second), (second, target)):
        server.stop()
        server.log.unlink()
        server.config = f"PermitOpen {allowed.address}:{allowed.port}"
        server.start()
    return first, second, target


def jump(*servers: Sshd) -> str:
    return ",".join(f"{USER}@{server.address}:{server.port}" for server in servers)


def test_two_jump_hosts_are_used_once_for_all_hosts_behind_them(
    parser: str, chain: tuple[Sshd, Sshd, Sshd], client: Client
) -> None:
    first, second, target = chain
    client.write_config(f"Host {target.address}\n  ProxyJump {jump(first, second)}\n")
    hosts = [target.host(f"n{number}") for number in range(4)]
    pool = client.pool(*hosts)
    results = pool.map([h.name for h in hosts], lambda c: c.run(["echo", c.host]).stdout)
    assert list(results.values()) == [f"{host.name}\n" for host in hosts]
    counts = (first.connections(), second.connections(), target.connections())
    assert counts == (1, 1, 4)


def test_each_jump_host_has_its_own_configuration(
    chain: tuple[Sshd, Sshd, Sshd], client: Client
) -> None:
    """Names, ports and the way to the second through the first come from the configuration."""
    first, second, target = chain
    client.write_config(
        "".join(
            f"Host {name}\n  HostName {server.address}\n  Port {server.port}\n  User {USER}\n"
            for name, server in (("outer", first), ("inner", second))
        )
        + "Host inner\n  ProxyJump outer\n"
    )
    host = target.host(common_args=("-F", str(client.config), "-J", "inner"))
    assert client.pool(host).connection("node01").run(["true"]).ok
    assert (first.connections(), second.connections(), target.connections()) == (1, 1, 1)


def test_a_jump_host_that_is_down_is_named(
    chain: tuple[Sshd, Sshd, Sshd], client: Client, quick: None
) -> None:
    first, second, target = chain
    second.stop()
    hosts = [
        target.host(name, common_args=("-J", jump(first, second))) for name in ("node01", "node02")
    ]
    pool = client.pool(*hosts)
    first_error = error_of(pool, "node01")
    second.start()
    second_error = error_of(pool, "node02")  # which does not try the dead hop again
    place = f"{second.address} ({second.address}:{second.port}, via {first.address})"
    assert str(first_error).startswith(
        f"node01 ({target.address}:{target.port}, via {second.address}): "
        f"its jump host {place} cannot be reached\n  why: "
    )
    assert f"not reachable from the jump host {first.address}" in str(first_error)
    assert second_error.what == first_error.what


def test_a_target_behind_a_jump_host_that_forbids_it_is_not_tried_again(
    chain: tuple[Sshd, Sshd, Sshd], client: Client
) -> None:
    first, _, target = chain
    host = target.host(common_args=("-J", jump(first)))
    error = error_of(client.pool(host))
    assert "does not let connections through" in error.what
    assert "PermitOpen" in str(error.hint)


def test_the_key_of_a_jump_host_is_checked(
    make_sshd: Callable[..., Sshd], sshd: Sshd, client: Client
) -> None:
    hop = make_sshd(trusted=False)
    error = error_of(client.pool(sshd.host(common_args=("-J", jump(hop)))))
    assert f"its jump host 127.0.0.1 (127.0.0.1:{hop.port}) cannot be reached" in error.what
    assert "the host's key is not known yet" in str(error.why)


def test_a_jump_host_that_star_sends_through_itself_is_reached_directly(
    sshd: Sshd, make_sshd: Callable[..., Sshd], client: Client
) -> None:
    hop = make_sshd(address="127.0.0.2")
    client.write_config(
        f"Host hop\n  HostName {hop.address}\n  Port {hop.port}\n  User {USER}\n"
        "Host *\n  ProxyJump hop\n"
    )
    assert client.pool(sshd.host()).connection("node01").run(["true"]).ok
    assert hop.connections() == 1


def test_hanging_up_is_quiet_when_the_jump_host_is_gone_already(
    sshd: Sshd, make_sshd: Callable[..., Sshd], client: Client
) -> None:
    """paramiko says goodbye through the jump host's connection, and raises EOFError."""
    hop = make_sshd(address="127.0.0.2")
    client.write_config(
        f"Host hop\n  HostName {hop.address}\n  Port {hop.port}\n  User {USER}\n"
        "Host *\n  ProxyJump hop\n"
    )
    pool = client.pool(sshd.host())
    assert pool.connection("node01").run(["true"]).ok
    pool._hops.close()
    pool.close()


def test_jump_hosts_in_a_circle_are_an_error(client: Client) -> None:
    client.write_config("Host a\n ProxyJump b\nHost b\n ProxyJump a\n")
    with pytest.raises(InputError, match="more than 8 jump hosts in a row"):
        resolve(named("a"), client.options())


def test_a_proxy_command_is_the_way(parser: str, sshd: Sshd, client: Client) -> None:
    relay = client.directory / "relay.py"
    relay.write_text(
        "import socket, sys, threading, os\n"
        "s = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
        "def up():\n"
        "    while data := os.read(0, 65536): s.sendall(data)\n"
        "    os._exit(0)\n"
        "threading.Thread(target=up).start()\n"
        "while data := s.recv(65536): os.write(1, data)\n"
        "os._exit(0)\n"
    )
    client.write_config(f"Host *\n  ProxyCommand python3 {relay} %h %p\n")
    connection = client.pool(sshd.host()).connection("node01")
    assert connection.run(["cat"], stdin="x" * 100_000).stdout == "x" * 100_000


def test_a_proxy_command_that_fails_is_quoted_with_what_it_said(client: Client) -> None:
    host = named("n", "-o", "ProxyCommand=sh -c 'echo no way to %h >&2; exit 3'")
    error = error_of(client.pool(host, connect_timeout=0.5), "n")
    assert "ended with status 3: no way to n" in str(error.why)


def test_an_error_never_is_a_traceback(client: Client, capfd: pytest.CaptureFixture[str]) -> None:
    """paramiko would log what it raises, too."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(OrcError):
            pool = client.pool(named("127.0.0.1", port=port), connect_timeout=0.2)
            pool.connection("127.0.0.1").run(["true"])
    assert capfd.readouterr() == ("", "")
