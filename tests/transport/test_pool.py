"""Many hosts, many commands, interruption, and connections that break."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.errors import DeploymentError, ExitStatus, InputError, UnreachableError
from orchestrator.inventory.host import ConnectionSettings, Host, HostSettings
from orchestrator.transport.connection import Connection
from tests.transport.conftest import Client
from tests.transport.processes import appears, end, gone, marker, processes
from tests.transport.sshd import Sshd


def local(name: str) -> Host:
    return Host(name, ConnectionSettings(kind="local"), HostSettings())


def test_all_commands_of_a_host_share_one_connection(sshd: Sshd, client: Client) -> None:
    pool = client.pool(sshd.host())
    threads = [
        threading.Thread(target=lambda: [pool.connection("node01").run(["true"]) for _ in range(4)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pool.connection("node01").stream(["true"], lambda *_: None)
    assert sshd.connections() == 1
    assert sshd.sessions() == 17


def test_commands_wait_when_the_server_allows_fewer_sessions(
    make_sshd: Callable[..., Sshd], client: Client
) -> None:
    server = make_sshd(config="MaxSessions 2")
    pool = client.pool(server.host())
    results: list[str] = []

    def run(number: int) -> None:
        result = pool.connection("node01").run(["sh", "-c", f"sleep 0.2; echo {number}"])
        results.append(result.stdout.strip())

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [str(number) for number in range(8)]
    assert server.connections() == 1


def test_a_command_with_a_deadline_does_not_wait_for_a_session_beyond_it(
    make_sshd: Callable[..., Sshd], client: Client
) -> None:
    """Such as a lock's sign of life while an image is pulled, where sshd allows one session."""
    server = make_sshd(config="MaxSessions 1")
    pool = client.pool(server.host())
    connection = pool.connection("node01")
    begun = threading.Event()
    words = ["sh", "-c", "echo begun; exec sleep 600"]

    def hold() -> None:
        with contextlib.suppress(KeyboardInterrupt):
            connection.stream(words, lambda *_: begun.set())

    holder = threading.Thread(target=hold)
    holder.start()
    assert begun.wait(30)
    for _ in range(2):  # also once the limit is known
        with pytest.raises(DeploymentError, match="no session was free in time") as caught:
            connection.run(["true"], timeout=0.5)
        assert caught.value.where == "node01" and "MaxSessions" in str(caught.value.hint)
    pool.interrupt()
    holder.join(30)
    assert connection.run(["true"], timeout=60).ok


def test_more_than_ten_commands_queue_at_an_ordinary_server(sshd: Sshd, client: Client) -> None:
    connection = client.pool(sshd.host()).connection("node01")
    results: list[bool] = []
    threads = [
        threading.Thread(target=lambda: results.append(connection.run(["sleep", "0.2"]).ok))
        for _ in range(25)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 25


def test_map_keeps_the_order_and_at_most_forks_at_once(client: Client) -> None:
    names = [f"n{number}" for number in range(9)]
    pool = client.pool(*map(local, names), forks=3)
    lock, now, most = threading.Lock(), 0, 0

    def work(connection: Connection) -> str:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.05 if connection.host != "n0" else 0.3)
        with lock:
            now -= 1
        return connection.host

    assert list(pool.map(reversed(names), work).items()) == [(n, n) for n in reversed(names)]
    assert most == 3


def test_an_error_of_one_host_is_its_result(client: Client) -> None:
    def work(connection: Connection) -> str:
        if connection.host == "b":
            raise DeploymentError("broken", where="b")
        return "fine"

    results = client.pool(local("a"), local("b")).map(["a", "b"], work)
    assert results["a"] == "fine"
    assert str(results["b"]) == "b: broken"


def test_a_fault_of_the_program_is_not_swallowed(client: Client) -> None:
    with pytest.raises(ZeroDivisionError):
        client.pool(local("a")).map(["a"], lambda _: 1 / 0)


def test_an_unknown_host_names_the_nearest(client: Client) -> None:
    with pytest.raises(InputError, match="no host 'node1'\n  do:  did you mean 'node01'"):
        client.pool(local("node01")).connection("node1")


def test_a_connection_that_breaks_during_a_command_is_reported_at_once_and_then_renewed(
    sshd: Sshd, client: Client
) -> None:
    connection = client.pool(sshd.host()).connection("node01")
    assert connection.run(["true"]).ok
    word = marker()
    caught: list[UnreachableError] = []

    def run() -> None:
        try:
            connection.run(["sh", "-c", f"sleep {word}; true"])
        except UnreachableError as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert appears(f"sleep {word}")
    for pid in sshd.session_pids():
        os.kill(pid, signal.SIGKILL)
    thread.join(20)
    assert not thread.is_alive()
    assert str(caught[0]).startswith(
        f"node01 (127.0.0.1:{sshd.port}): the connection broke during a command\n  why: "
    )
    assert caught[0].exit_status == ExitStatus.UNREACHABLE
    assert gone(f"sleep {word}")
    assert connection.run(["echo", "again"]).stdout == "again\n"
    assert (sshd.connections(), sshd.sessions()) == (2, 3)


def test_a_connection_that_broke_while_idle_is_renewed_unnoticed(
    sshd: Sshd, client: Client
) -> None:
    connection = client.pool(sshd.host()).connection("node01")
    assert connection.run(["true"]).ok
    for pid in sshd.session_pids():
        os.kill(pid, signal.SIGKILL)
    assert connection.run(["echo", "again"]).stdout == "again\n"


def test_a_connection_on_which_nothing_comes_back_is_given_up(sshd: Sshd, client: Client) -> None:
    client.write_config("Host *\n ServerAliveInterval 1\n ServerAliveCountMax 2\n")
    connection = client.pool(sshd.host()).connection("node01")
    assert connection.run(["true"]).ok
    pids = sshd.session_pids()

    def freeze() -> None:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)

    timer = threading.Timer(0.5, freeze)
    timer.start()
    with pytest.raises(UnreachableError, match="the connection broke"):
        connection.run(["sleep", "30"])


def test_a_busy_connection_is_not_taken_for_dead(sshd: Sshd, client: Client) -> None:
    client.write_config("Host *\n ServerAliveInterval 1\n ServerAliveCountMax 1\n")
    connection = client.pool(sshd.host()).connection("node01")
    assert connection.run(["sleep", "2.5"]).ok
    assert sshd.connections() == 1


def start_child(tmp_path: Path, host: Host, client: Client, body: str) -> subprocess.Popen[str]:
    """A control process that runs `body` with `pool` for `host`."""
    text = f"""
from pathlib import Path
from orchestrator.inventory.host import ConnectionSettings, Host, HostSettings
from orchestrator.transport.pool import ConnectionPool
from orchestrator.transport.ssh_config import SshOptions
settings = ConnectionSettings(
    kind={host.connection.kind!r}, address={host.connection.address!r},
    port={host.connection.port!r}, user={host.connection.user!r},
)
host = Host("node01", settings, HostSettings())
with ConnectionPool([host], SshOptions(config_file=Path({str(client.config)!r}))) as pool:
{textwrap.indent(textwrap.dedent(body), "    ")}
"""
    path = tmp_path / "control.py"
    path.write_text(text)
    root = Path(__file__).parents[2]
    return subprocess.Popen(
        [sys.executable, str(path)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.fixture(params=["ssh", "local"])
def host(request: pytest.FixtureRequest) -> Host:
    return request.getfixturevalue("sshd").host() if request.param == "ssh" else local("node01")


def test_ctrl_c_ends_the_commands_and_leaves_the_pool_usable(
    tmp_path: Path, host: Host, client: Client
) -> None:
    word, stays = marker(), marker()
    child = start_child(
        tmp_path,
        host,
        client,
        f"""
        try:
            pool.map(["node01"], lambda c: c.run(
                ["sh", "-c", "setsid sleep {stays} >/dev/null 2>&1 & sleep {word}; true"]))
        except KeyboardInterrupt:
            print("interrupted", pool.connection("node01").run(["echo", "cleaned"]).stdout)
        """,
    )
    assert appears(f"sleep {word}")
    time.sleep(0.2)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=15)
    assert (out, err, child.returncode) == ("interrupted cleaned\n\n", "", 0)
    assert gone(f"sleep {word}", 2)
    assert processes(f"sleep {stays}"), "what has left the process group, like a container, stays"
    end(f"sleep {stays}")


def test_ctrl_c_in_the_main_thread_ends_its_command(
    tmp_path: Path, host: Host, client: Client
) -> None:
    word = marker()
    body = f'pool.connection("node01").run(["sleep", "{word}"], stdin="some")'
    child = start_child(tmp_path, host, client, body)
    assert appears(f"sleep {word}")
    time.sleep(0.2)
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=15)
    assert gone(f"sleep {word}", 2)


def test_ctrl_c_does_not_wait_for_a_host_that_is_being_tried(
    tmp_path: Path, client: Client
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = ConnectionSettings(address="127.0.0.1", port=silent.getsockname()[1])
        host = Host("node01", settings, HostSettings())
        body = """
        print("begin", flush=True)
        pool.map(["node01"], lambda c: c.run(["true"]))
        """
        child = start_child(tmp_path, host, client, body)
        assert child.stdout
        child.stdout.readline()
        time.sleep(1)
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=8)  # a single try takes 10 s


@pytest.mark.parametrize("stdin", ["", "some"])
def test_a_killed_control_process_ends_its_commands(
    tmp_path: Path, host: Host, client: Client, stdin: str
) -> None:
    word = marker()
    child = start_child(
        tmp_path,
        host,
        client,
        f"""
        pool.connection("node01").stream(
            ["sh", "-c", "trap '' PIPE; sleep {word}; true"], print, stdin={stdin!r})
        """,
    )
    assert appears(f"sleep {word}")
    time.sleep(0.2)
    child.kill()
    child.communicate()
    assert gone(f"sleep {word}", 8)


def test_closing_the_pool_ends_what_still_runs(sshd: Sshd, client: Client) -> None:
    word = marker()
    pool = client.pool(sshd.host())
    connection = pool.connection("node01")
    caught: list[BaseException] = []

    def run() -> None:
        try:
            connection.run(["sleep", word])
        except UnreachableError as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert appears(f"sleep {word}")
    pool.close()
    thread.join(5)
    assert caught
    assert gone(f"sleep {word}")


def test_the_transport_is_not_imported_before_it_is_used() -> None:
    code = (
        "import sys, orchestrator.transport.pool, orchestrator.transport.local;"
        "print([m for m in ('paramiko', 'tenacity') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
