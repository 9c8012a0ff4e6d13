"""Keys, passphrases, the agent, passwords, sudo: logging in and what is said when it fails."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestrator.errors import UnreachableError
from orchestrator.inventory.host import ConnectionSettings, Host, HostSettings
from orchestrator.secret import Secret
from tests.transport.conftest import Client, error_of
from tests.transport.processes import appears, gone, marker
from tests.transport.sshd import USER, Sshd, make_key

PASSWORD = "correct horse"


# -- keys ----------------------------------------------------------------------------------


def test_a_refused_login_says_who_and_what_was_tried_and_is_not_repeated(
    make_sshd: Callable[..., Sshd], client: Client, tmp_path: Path
) -> None:
    other = make_key(tmp_path / "other")
    server = make_sshd(authorized=[other])
    error = error_of(client.pool(server.host()))
    assert str(error) == (
        f"node01 (127.0.0.1:{server.port}): login as {USER} refused\n"
        f"  why: tried key {client.key}; no agent; no password given\n"
        f"  do:  ssh-copy-id -p {server.port} -i {client.key} {USER}@127.0.0.1, "
        "or set ansible_user, ansible_ssh_private_key_file or ansible_password"
    )
    assert server.connections() == 1


def test_several_identity_files_are_tried(
    make_sshd: Callable[..., Sshd], client: Client, tmp_path: Path
) -> None:
    second = make_key(tmp_path / "second", kind="ecdsa")
    third = make_key(tmp_path / "third", kind="rsa")
    client.write_config(f"Host *\n  IdentityFile {second}\n  IdentityFile {third}\n")
    server = make_sshd(authorized=[third])
    assert client.pool(server.host()).connection("node01").run(["true"]).ok


def test_a_named_key_file_must_exist(sshd: Sshd, client: Client) -> None:
    error = error_of(client.pool(sshd.host(private_key_file="/nonexistent/key")))
    assert str(error) == (
        f"node01 (127.0.0.1:{sshd.port}): there is no key file /nonexistent/key\n"
        "  do:  correct ansible_ssh_private_key_file, or make a key with ssh-keygen"
    )
    assert sshd.connections() == 0


def test_a_key_that_others_may_read_is_not_used(sshd: Sshd, client: Client, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shutil.copy(client.key, shared)
    shared.chmod(0o644)
    client.write_config(identity=False)
    error = error_of(client.pool(sshd.host(private_key_file=str(shared))))
    assert f"key {shared} not used: its permissions 0644 let others read it" in str(error)
    assert f"chmod 600 {shared}" in str(error)


def test_a_file_that_is_no_key_is_named(sshd: Sshd, client: Client, tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("hello\n")
    path.chmod(0o600)
    client.write_config(identity=False)
    error = error_of(client.pool(sshd.host(private_key_file=str(path))))
    assert f"key {path} not used: not a private key" in str(error)


def test_a_passphrase_without_a_terminal_is_an_error_that_names_ssh_add(
    make_sshd: Callable[..., Sshd], client: Client, tmp_path: Path
) -> None:
    locked = make_key(tmp_path / "locked", PASSWORD)
    server = make_sshd(authorized=[locked])
    host = server.host(private_key_file=str(locked))
    status, output = in_terminal(client, [host], [], terminal=False)
    assert status == 4
    assert f"key {locked} not used: it needs a passphrase and there is no terminal" in output
    assert f"ssh-add {locked}" in output


def test_a_passphrase_is_asked_once_for_all_hosts(
    make_sshd: Callable[..., Sshd], client: Client, tmp_path: Path
) -> None:
    locked = make_key(tmp_path / "locked", PASSWORD)
    server = make_sshd(authorized=[locked])
    client.write_config(identity=False)
    hosts = [server.host(f"n{n}", private_key_file=str(locked)) for n in range(3)]
    status, output = in_terminal(client, hosts, ["wrong one", PASSWORD])
    assert (status, output.count("Passphrase for key")) == (0, 2)
    assert PASSWORD not in output


def in_terminal(
    client: Client, hosts: list[Host], answers: list[str], *, terminal: bool = True
) -> tuple[int, str]:
    """Runs `true` on `hosts` in a process with a terminal that answers questions."""
    described = [(h.name, h.connection.port, h.connection.private_key_file) for h in hosts]
    code = f"""
import sys
from pathlib import Path
from orchestrator.errors import OrcError
from orchestrator.inventory.host import ConnectionSettings, Host, HostSettings
from orchestrator.transport.pool import ConnectionPool
from orchestrator.transport.ssh_config import SshOptions
hosts = [
    Host(name, ConnectionSettings(address="127.0.0.1", port=port, private_key_file=key),
         HostSettings())
    for name, port, key in {described!r}
]
with ConnectionPool(hosts, SshOptions(config_file=Path({str(client.config)!r}))) as pool:
    results = pool.map([host.name for host in hosts], lambda c: c.run(["true"]).ok)
for result in results.values():
    if isinstance(result, OrcError):
        print(result)
        sys.exit(result.exit_status)
"""
    if not terminal:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, start_new_session=True
        )
        return done.returncode, done.stdout + done.stderr
    pid, master = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", code])
    output, left = "", list(answers)
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if not select.select([master], [], [], 0.5)[0]:
            continue
        try:
            data = os.read(master, 4096)
        except OSError:
            break
        if not data:
            break
        output += data.decode()
        if left and output.endswith(": ") and output.count("Passphrase") > len(answers) - len(left):
            os.write(master, left.pop(0).encode() + b"\n")
    _, status = os.waitpid(pid, 0)
    os.close(master)
    return os.waitstatus_to_exitcode(status), output


# -- agent ---------------------------------------------------------------------------------


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Starts an ssh-agent with keys; returns its socket."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*keys: Path) -> Path:
        path = tmp_path / f"agent{len(started)}"
        started.append(subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=-3))
        until = time.monotonic() + 5
        while not path.exists() and time.monotonic() < until:
            time.sleep(0.01)
        for key in keys:
            environment = {**os.environ, "SSH_AUTH_SOCK": str(path)}
            command = ["ssh-add", "-q", str(key)]
            subprocess.run(command, env=environment, check=True)
        return path

    yield start
    for process in started:
        process.terminate()
        process.wait()


def test_keys_of_the_agent_are_used(
    make_sshd: Callable[..., Sshd],
    client: Client,
    agent: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_agent = make_key(tmp_path / "in_agent")
    server = make_sshd(authorized=[in_agent])
    monkeypatch.setenv("SSH_AUTH_SOCK", str(agent(in_agent)))
    client.write_config("Host *\n  IdentityAgent SSH_AUTH_SOCK\n", identity=False)
    assert client.pool(server.host()).connection("node01").run(["true"]).ok
    client.write_config(
        "Host *\n  IdentityAgent SSH_AUTH_SOCK\n  IdentitiesOnly yes\n", identity=False
    )
    error = error_of(client.pool(server.host()))
    assert "there was nothing to try" in str(error)
    assert "with 1 keys" in str(error)


def test_a_locked_key_that_the_agent_holds_is_not_asked_for(
    make_sshd: Callable[..., Sshd], client: Client, agent: Callable[..., Path], tmp_path: Path
) -> None:
    locked = make_key(tmp_path / "locked")
    server = make_sshd(authorized=[locked])
    path = agent(locked)
    subprocess.run(
        ["ssh-keygen", "-q", "-p", "-P", "", "-N", PASSWORD, "-f", str(locked)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    client.write_config(
        f"Host *\n  IdentityAgent {path}\n  IdentitiesOnly yes\n  IdentityFile {locked}\n",
        identity=False,
    )
    assert client.pool(server.host()).connection("node01").run(["true"]).ok


def test_a_key_is_found_among_more_agent_keys_than_the_server_lets_try(
    sshd: Sshd, client: Client, agent: Callable[..., Path], tmp_path: Path
) -> None:
    path = agent(*(make_key(tmp_path / f"useless{n}") for n in range(7)))
    client.write_config(f"Host *\n  IdentityAgent {path}\n")
    assert client.pool(sshd.host()).connection("node01").run(["true"]).ok
    client.write_config(f"Host *\n  IdentityAgent {path}\n", identity=False)
    error = error_of(client.pool(sshd.host()))
    assert "then the server closed the connection (MaxAuthTries?)" in str(error)
    assert sshd.connections() == 2


# -- passwords and sudo --------------------------------------------------------------------


def privately(tmp_path: Path, files: dict[str, str]) -> tuple[str, ...]:
    """A command prefix: run with other files in place of the system's, seen by nobody else."""
    if os.getuid() != 0 or subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("needs root and mount namespaces")
    mounts = []
    for number, (target, text) in enumerate(files.items()):
        source = tmp_path / f"private{number}"
        source.write_text(text)
        source.chmod(0o440)
        mounts.append(f"mount --bind {source} {target}")
    return ("unshare", "-m", "sh", "-c", " && ".join([*mounts, 'exec "$@"']), "sh")


def accounts(password: str = PASSWORD) -> dict[str, str]:
    """/etc/passwd and /etc/shadow with a password for root and for an ordinary user `ops`."""
    command = ["openssl", "passwd", "-6", "-stdin"]
    done = subprocess.run(command, input=password, capture_output=True, text=True, check=True)
    hashed = done.stdout.strip()
    passwd = Path("/etc/passwd").read_text() + "ops:x:4711:4711::/tmp:/bin/sh\n"
    shadow = re.sub(r"(?m)^root:.*\n", "", Path("/etc/shadow").read_text())
    shadow += f"root:{hashed}:19000::::::\nops:{hashed}:19000::::::\n"
    return {"/etc/passwd": passwd, "/etc/shadow": shadow}


BY_PASSWORD = "PasswordAuthentication yes"


def test_a_password_is_used(make_sshd: Callable[..., Sshd], client: Client, tmp_path: Path) -> None:
    server = make_sshd(prefix=privately(tmp_path, accounts()), config=BY_PASSWORD)
    client.write_config(identity=False)
    host = server.host(password=Secret(PASSWORD))
    assert client.pool(host).connection("node01").run(["true"]).ok


def test_a_wrong_password_is_said_once_and_not_shown(
    make_sshd: Callable[..., Sshd], client: Client, tmp_path: Path
) -> None:
    server = make_sshd(prefix=privately(tmp_path, accounts()), config=BY_PASSWORD)
    client.write_config(identity=False)
    error = error_of(client.pool(server.host(password=Secret("wrong-secret"))))
    assert "why: tried password; " in str(error)
    assert "wrong-secret" not in str(error) + repr(error.__dict__)
    assert server.log.read_text().count("Failed password") == 1


@pytest.fixture
def sudoer(
    make_sshd: Callable[..., Sshd], tmp_path: Path, client: Client
) -> Callable[..., Callable[..., Host]]:
    """A server whose user `ops` may do what a line of sudoers says."""
    if not shutil.which("sudo"):
        pytest.skip("no sudo")

    def make(rule: str, config: str = "") -> Callable[..., Host]:
        files = {**accounts(), "/etc/sudoers": f"Defaults !fqdn\nroot ALL=(ALL) ALL\n{rule}\n"}
        for directory in [tmp_path, *tmp_path.parents[:2]]:
            directory.chmod(0o755)
        server = make_sshd(prefix=privately(tmp_path, files), config=BY_PASSWORD + config)
        client.write_config(identity=False)

        def host(**settings: object) -> Host:
            values = {"user": "ops", "password": Secret(PASSWORD), "become": True, **settings}
            return server.host(**values)  # type: ignore[arg-type]

        return host

    return make


Sudoer = Callable[..., Callable[..., Host]]


def test_sudo_without_a_password_runs_commands_as_root(sudoer: Sudoer, client: Client) -> None:
    connection = client.pool(sudoer("ops ALL=(ALL) NOPASSWD: ALL")()).connection("node01")
    assert connection.run(["id", "-un"]).stdout == "root\n"
    result = connection.run(["sh", "-c", "cat; echo err >&2; exit 3"], stdin="input")
    assert (result.stdout, result.stderr, result.exit_status) == ("input", "err\n", 3)


@pytest.mark.parametrize("rule", ["ops ALL=(ALL) ALL", "ops ALL=(ALL) NOPASSWD: ALL"])
def test_the_password_of_sudo_never_gets_into_the_input(
    rule: str, sudoer: Sudoer, client: Client
) -> None:
    """Whether sudo asks for it or not."""
    host = sudoer(rule)(become_password=Secret(PASSWORD))
    connection = client.pool(host).connection("node01")
    for stdin in ("", "the input\n", "x" * 300_000):
        result = connection.run(["cat"], stdin=stdin)
        assert (result.stdout, result.stderr, result.exit_status) == (stdin, "", 0)
    assert connection.script("id -un; echo $1", ["a b"]).stdout == "root\na b\n"


def test_what_comes_before_sudo_is_not_the_commands(sudoer: Sudoer, client: Client) -> None:
    config = "\nForceCommand /bin/sh -c 'echo HI; echo HI >&2; eval \"$SSH_ORIGINAL_COMMAND\"'\n"
    host = sudoer("ops ALL=(ALL) ALL", config)(become_password=Secret(PASSWORD))
    result = client.pool(host).connection("node01").run(["cat"], stdin="input")
    assert (result.stdout, result.stderr) == ("input", "")


def test_another_user_than_root_can_be_become(sudoer: Sudoer, client: Client) -> None:
    host = sudoer("ops ALL=(ALL) NOPASSWD: ALL")(become_user="nobody")
    assert client.pool(host).connection("node01").run(["id", "-un"]).stdout == "nobody\n"


@pytest.mark.parametrize(
    ("rule", "password", "why"),
    [
        ("ops ALL=(ALL) ALL", None, "it asks for a password"),
        ("ops ALL=(ALL) ALL", "wrong-secret", "the password was wrong"),
        ("", PASSWORD, "ops is not in the sudoers file"),
    ],
)
def test_a_sudo_that_refuses_says_why(
    rule: str, password: str | None, why: str, sudoer: Sudoer, client: Client
) -> None:
    secret = Secret(password) if password else None
    connection = client.pool(sudoer(rule)(become_password=secret)).connection("node01")
    with pytest.raises(UnreachableError) as caught:
        connection.run(["cat"], stdin="input", timeout=20)
    assert "node01: cannot become root by sudo\n  why: " in str(caught.value)
    assert why in str(caught.value)
    assert "wrong-secret" not in str(caught.value)


@pytest.mark.parametrize("rule", ["ops ALL=(ALL) ALL", "ops ALL=(ALL) NOPASSWD: ALL"])
def test_what_runs_under_sudo_ends_with_the_connection(
    rule: str, sudoer: Sudoer, client: Client
) -> None:
    pool = client.pool(sudoer(rule)(become_password=Secret(PASSWORD)))
    word = marker()

    def run() -> None:
        with pytest.raises(UnreachableError):
            pool.connection("node01").run(["sh", "-c", f"sleep {word}; true"])

    thread = threading.Thread(target=run)
    thread.start()
    assert appears(f"sleep {word}")
    pool.close()
    thread.join(5)
    assert gone(f"sleep {word}", 8)


def test_a_local_connection_becomes_another_user_too(client: Client) -> None:
    if os.getuid() != 0 or not shutil.which("sudo"):
        pytest.skip("needs root and sudo")
    settings = ConnectionSettings(kind="local", become=True, become_user="nobody")
    connection = client.pool(Host("here", settings, HostSettings())).connection("here")
    assert connection.run(["id", "-un"]).stdout == "nobody\n"
