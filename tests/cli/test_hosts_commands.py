"""The commands that touch hosts, where there is nothing to touch: one clear message, the right
exit status, nothing started. With real containers they are tested on the fleet (tests/e2e)."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.cli.main import run

COMMANDS = ["status", "logs", "probe", "down", "check"]
PROGRAMS = (
    *("sh", "date", "df", "cat", "nproc", "hostname", "uname", "tail", "dirname", "grep"),
    *("cut", "sort", "head", "ps", "tr"),
)
LOCAL = "all: {hosts: {here: {ansible_connection: local, orc_hardware: cpu}}}\n"


@pytest.fixture
def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.fixture
def unreachable(tmp_path: Path, free_port: int, monkeypatch: pytest.MonkeyPatch) -> str:
    """A host whose port refuses; the pauses between attempts to connect are cut short."""
    monkeypatch.setattr("orchestrator.transport.ssh_connect._FIRST_PAUSE", 0.01)
    monkeypatch.setattr("orchestrator.transport.ssh_connect._JITTER", 0.01)
    path = tmp_path / "unreachable.yml"
    path.write_text(
        f"all: {{hosts: {{gone: {{ansible_host: 127.0.0.1, ansible_port: {free_port}, "
        "orc_hardware: cpu, orc_address: 192.0.2.1}}}\n"
    )
    return str(path)


@pytest.fixture
def without_docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A host whose PATH has the usual commands, and no docker."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in PROGRAMS:
        for directory in ("/usr/bin", "/bin"):
            if (Path(directory) / name).exists() and not (programs / name).exists():
                (programs / name).symlink_to(Path(directory) / name)
    monkeypatch.setenv("PATH", str(programs))
    path = tmp_path / "local.yml"
    path.write_text(LOCAL)
    return str(path)


@pytest.mark.parametrize("command", COMMANDS)
def test_without_an_inventory_it_is_wrong_usage(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("ORC_INVENTORY", raising=False)
    assert run([command]) == 3
    assert "--inventory" in capsys.readouterr().err


@pytest.mark.parametrize("command", [*COMMANDS, "up"])
@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        (None, [], "no such inventory"),
        ("all: [", [], "local.yml:"),
        (LOCAL, ["--limit", "her"], "her"),
        (LOCAL, ["--limit", "here:!here"], "no host"),
        (LOCAL.replace("orc_hardware", "orc_hardwear"), [], "orc_hardware"),
    ],
)
def test_a_wrong_inventory_or_limit_is_one_message_and_status_1(
    command: str,
    content: str | None,
    options: list[str],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "local.yml"
    if content is not None:
        path.write_text(content)
    selection = ["--recipe", "orc/tiny-llama"] if command == "up" else []
    assert run([command, "-i", str(path), *options, *selection]) == 1
    captured = capsys.readouterr()
    assert said in captured.err and "Traceback" not in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(
    ("command", "status"),
    [("status", 4), ("logs", 4), ("probe", 4), ("down", 4), ("check", 4)],
)
def test_a_host_that_cannot_be_reached_is_unknown_and_never_said_to_be_fine(
    command: str, status: int, unreachable: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([command, "-i", unreachable]) == status
    captured = capsys.readouterr()
    text = captured.out + captured.err
    assert "gone" in text and "Traceback" not in text
    assert "stopped" not in text and "healthy" not in text


def test_up_starts_nothing_when_a_planned_host_cannot_be_reached(
    unreachable: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["up", "-i", unreachable, "-r", "orc/tiny-llama", "-s", "single_node_tp"]) == 4
    text = capsys.readouterr().out
    assert "nothing was started: the plan needs gone" in text
    assert "--limit 'all:!gone'" in text
    assert "TASK [Pull" not in text


@pytest.mark.parametrize("command", ["status", "logs", "probe", "down"])
def test_a_host_without_docker_is_named_and_not_taken_for_an_empty_one(
    command: str, without_docker: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([command, "-i", without_docker]) == 2
    captured = capsys.readouterr()
    assert "no host answered" in captured.out + captured.err
    assert "here" in captured.out + captured.err
    assert "docker" in captured.out + captured.err


@pytest.fixture
def without_sudo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Two hosts whose sudo wants a password that the inventory does not have."""
    sudo = tmp_path / "bin" / "sudo"
    sudo.parent.mkdir()
    sudo.write_text("#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n")
    sudo.chmod(0o755)
    monkeypatch.setenv("PATH", f"{sudo.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = tmp_path / "sudo.yml"
    path.write_text(
        "all: {vars: {ansible_connection: local, ansible_become: true}, hosts: {one: {}, two: {}}}"
    )
    return str(path)


@pytest.mark.parametrize(
    "command",
    [
        *("status", "logs", "logs x", "logs -f x", "probe", "down", "down x", "roll", "roll x"),
        *("restart", "restart x", "lock status", "lock release x", "history", "history x", "bench"),
    ],
)
def test_why_a_host_is_unknown_and_what_to_do_is_said_once_of_each_cause(
    command: str, without_sudo: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command.split(), "-i", without_sudo]) == 4
    captured = capsys.readouterr()
    text = captured.out + captured.err
    assert text.count("cannot become root by sudo") == 2
    assert text.count("why: it asks for a password") == 1
    assert text.count("do:  give ansible_become_password") == 1
    assert "nothing is deployed" not in text and "is being changed" not in text


def test_the_documents_say_it_of_each_host(
    without_sudo: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for command, field in (
        ("status", "unreachable"),
        ("probe", "unreachable"),
        ("lock status", "unknown"),
    ):
        run([*command.split(), "-i", without_sudo, "--json"])
        unknown = json.loads(capsys.readouterr().out)[field]
        assert list(unknown) == ["one", "two"]
        assert all("do:  give ansible_become_password" in why for why in unknown.values())


@pytest.mark.parametrize(
    "words", [["plan", "--check", "--yes"], ["plan", "-C", "-y"], ["inventory", "--forks", "4"]]
)
def test_a_flag_of_every_command_is_taken_where_it_changes_nothing(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text(LOCAL)
    selection = ["-r", "orc/tiny-llama", "-s", "single_node_tp"] if words[0] == "plan" else []
    assert run([*words, "-i", str(path), *selection]) == 0, capsys.readouterr().err


def test_check_names_a_host_without_docker_and_the_mend(
    without_docker: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", "-i", without_docker]) == 2
    assert "install docker on this host" in capsys.readouterr().out


def test_up_names_the_same_mend(without_docker: str, capsys: pytest.CaptureFixture[str]) -> None:
    up = ["up", "-i", without_docker, "-r", "orc/tiny-llama", "-s", "single_node_tp"]
    assert run(up) == 2
    assert "install docker on this host" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["status", "probe", "down", "check"])
def test_json_is_all_there_is_on_stdout(
    command: str, unreachable: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = run([command, "-i", unreachable, "--json"])
    out = capsys.readouterr().out
    documents = (
        [json.loads(line) for line in out.splitlines()]
        if command in ("down", "check")
        else [json.loads(out)]
    )
    last = documents[-1].get("data", documents[-1])
    assert last["exit_status"] == status == 4


def test_up_reads_the_selection_before_it_touches_a_host(
    unreachable: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["up", "-i", unreachable]) == 1
    assert "no recipe was given" in capsys.readouterr().err
    assert run(["up", "-i", unreachable, "-r", "orc/tiny-lama"]) == 1
    out = capsys.readouterr()
    assert "orc/tiny-llama" in out.out + out.err


def test_heavy_libraries_are_not_loaded_for_help() -> None:
    code = (
        "import sys; from orchestrator.cli.main import run; run(['up', '--help']);"
        "heavy = {'paramiko', 'fabric', 'httpx', 'jinja2', 'rich.live'} & set(sys.modules);"
        "sys.exit(f'loaded: {heavy}' if heavy else 0)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ}
    )
    assert result.returncode == 0, result.stderr
