"""Commands over a real sshd and on this machine: the same behaviour of both."""

from __future__ import annotations

import functools
import socket
import time
from pathlib import Path

import pytest

from orchestrator.errors import DeploymentError
from orchestrator.inventory.host import ConnectionSettings, Host, HostSettings
from orchestrator.transport import command
from orchestrator.transport.connection import Connection
from orchestrator.transport.remote_shell import guarded
from tests.transport.conftest import Client
from tests.transport.processes import end, gone, marker, mentioned, processes
from tests.transport.sshd import Sshd


@pytest.fixture(params=["ssh", "local"])
def connection(request: pytest.FixtureRequest, client: Client) -> Connection:
    if request.param == "ssh":
        server: Sshd = request.getfixturevalue("sshd")
        return client.pool(server.host()).connection("node01")
    host = Host("node01", ConnectionSettings(kind="local"), HostSettings())
    return client.pool(host).connection("node01")


def test_arguments_arrive_as_they_are(connection: Connection) -> None:
    words = ["a b", "c'd", "$HOME", "*", "", "x\ny", 'q"r', "ü", "-n"]
    result = connection.run(["printf", "<%s>", *words])
    assert result.stdout == "".join(f"<{word}>" for word in words)
    assert result.exit_status == 0


def test_output_streams_are_kept_apart(connection: Connection) -> None:
    result = connection.run(["sh", "-c", "echo out; echo err >&2; exit 7"])
    assert (result.stdout, result.stderr, result.exit_status) == ("out\n", "err\n", 7)


def test_input_and_output_of_any_size_do_not_block(connection: Connection) -> None:
    text = "0123456789abcdef" * (20 << 16)  # 20 MiB
    assert connection.run(["cat"], stdin=text).stdout == text
    both = connection.run(["sh", "-c", "cat | tee /dev/stderr"], stdin=text[: 4 << 20])
    assert len(both.stdout) == len(both.stderr) == 4 << 20


def test_fifty_megabytes_of_output_arrive_whole(connection: Connection) -> None:
    result = connection.run(["head", "-c", "52428800", "/dev/zero"])
    assert len(result.stdout) == 52428800


def test_input_that_nobody_reads_does_not_block(connection: Connection) -> None:
    assert connection.run(["true"], stdin="x" * (8 << 20)).ok


def test_a_command_without_input_reads_an_empty_one(connection: Connection) -> None:
    assert connection.run(["cat"], timeout=5).stdout == ""


def test_input_ends_where_it_ends(connection: Connection) -> None:
    assert connection.run(["cat"], stdin="no newline, \u00fc", timeout=5).stdout == "no newline, ü"


@pytest.mark.parametrize("stdin", ["", "some"])
@pytest.mark.parametrize(("signal", "number"), [("TERM", 15), ("KILL", 9), ("SEGV", 11)])
def test_death_by_a_signal_is_128_and_its_number(
    connection: Connection, signal: str, number: int, stdin: str
) -> None:
    result = connection.run(["sh", "-c", f"kill -{signal} $$"], stdin=stdin)
    assert result.exit_status == 128 + number


def test_death_of_the_shell_around_a_command_is_status_137(connection: Connection) -> None:
    assert connection.run(["sh", "-c", "kill -KILL $PPID"]).exit_status == 137


@pytest.mark.parametrize("name", ["no-such-command", "exit", "cd"])
def test_a_command_that_does_not_exist_is_status_127(connection: Connection, name: str) -> None:
    result = connection.run([name, "3"])
    assert result.exit_status == 127
    assert "not found" in result.stderr


def test_commands_start_in_the_home_directory(connection: Connection) -> None:
    assert connection.run(["pwd"]).stdout == f"{Path.home()}\n"


def test_a_script_gets_its_arguments_and_status(connection: Connection) -> None:
    result = connection.script('for x; do echo "<$x>"; done\nexit 3\n', ["a b", "-x", ""])
    assert (result.stdout, result.exit_status) == ("<a b>\n<-x>\n<>\n", 3)


def test_nothing_of_a_script_or_of_input_shows_in_the_process_list(connection: Connection) -> None:
    listing = "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n'"
    result = connection.script(f"secret=hidden-in-script; {listing}\n")
    assert "sh\n-s" in result.stdout
    assert "hidden-in-script" not in result.stdout
    result = connection.run(["sh", "-c", f"{listing}"], stdin="hidden-in-input")
    assert "head" in result.stdout
    assert "hidden-in-input" not in result.stdout


def test_lines_come_as_they_are_written(connection: Connection) -> None:
    began = time.monotonic()
    seen: list[tuple[str, str, float]] = []
    status = connection.stream(
        ["sh", "-c", "printf 'a\\n1%%\\r2%%\\r'; sleep 1; echo b >&2; printf 'end'; exit 4"],
        lambda stream, line: seen.append((stream, line, time.monotonic() - began)),
    )
    assert status == 4
    assert [(stream, line) for stream, line, _ in seen if stream == "stdout"] == [
        ("stdout", line) for line in ("a", "1%", "2%", "end")
    ]
    assert ("stderr", "b") in [(stream, line) for stream, line, _ in seen]
    times = {line: when for _, line, when in seen}
    assert times["2%"] < times["b"] - 0.7


def test_a_character_may_be_cut_in_two_on_the_way(connection: Connection) -> None:
    lines: list[str] = []
    script = r"printf '\303'; sleep 0.3; printf '\274\n'"
    connection.stream(["sh", "-c", script], lambda _, line: lines.append(line))
    assert lines == ["ü"]


def test_a_command_that_takes_too_long_is_ended(connection: Connection) -> None:
    word = marker()  # a sleep far longer than a test may take
    with pytest.raises(DeploymentError) as caught:
        connection.run(["sh", "-c", f"sleep {word}; true"], timeout=2)
    assert str(caught.value) == "node01: sh took more than 2 s and was ended"
    assert gone(f"sleep {word}", 2)


@pytest.mark.parametrize("stdin", ["", "some"])
def test_one_that_does_not_heed_term_is_killed(
    connection: Connection, stdin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "guarded", functools.partial(guarded, grace=1))
    word = marker()
    with pytest.raises(DeploymentError, match="took more than"):
        connection.run(
            ["sh", "-c", f"trap '' TERM; sleep {word}; sleep {word}"], stdin=stdin, timeout=1
        )
    assert gone(f"sleep {word}", 2)


def test_an_error_in_the_receiver_of_lines_ends_the_command(connection: Connection) -> None:
    word = marker()

    def sink(stream: str, line: str) -> None:
        raise ValueError(line)

    with pytest.raises(ValueError, match="go"):
        connection.stream(["sh", "-c", f"echo go; sleep {word}; true"], sink)
    assert gone(f"sleep {word}", 2)


def test_a_process_left_behind_is_not_waited_for_and_lives_on(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "_LINGER", 0.5)
    word = marker()
    result = connection.run(["sh", "-c", f"setsid sleep {word} & echo started"])
    assert (result.stdout, result.exit_status) == ("started\n", 0)
    connection.close()
    time.sleep(0.3)
    assert processes(f"sleep {word}")
    end(f"sleep {word}")


def test_output_without_an_end_is_cut_off(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "MOST_OUTPUT", 1 << 20)
    with pytest.raises(DeploymentError, match="yes was ended: more than 1 MiB of stdout"):
        connection.run(["yes"])


def test_nothing_is_left_after_a_command(connection: Connection) -> None:
    """Neither the watcher nor the feeder of input."""
    word = marker()
    for stdin in ("", "text"):
        assert connection.run(["true", word], stdin=stdin).ok
    assert not mentioned(word)


def test_a_socket_reaches_a_port_that_listens(connection: Connection) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        stream = connection.open_socket("127.0.0.1", port, timeout=5)
        peer, _ = server.accept()
        with peer:
            stream.sendall(b"ping")
            assert peer.recv(10) == b"ping"
            peer.sendall(b"pong")
            assert stream.recv(10) == b"pong"
            stream.settimeout(0.1)
            with pytest.raises(TimeoutError):
                stream.recv(1)
        stream.close()
    with pytest.raises(OSError):
        connection.open_socket("127.0.0.1", port, timeout=5)
