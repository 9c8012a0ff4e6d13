"""What a login shell says before a command is not the command's."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from orchestrator.errors import DeploymentError, UnreachableError
from orchestrator.transport.beginning import Beginning
from orchestrator.transport.connection import Connection
from tests.transport.conftest import Client
from tests.transport.sshd import Sshd

# As sshd and bash do with a ~/.bashrc: it is read, then the command is run by the login shell.
LOGIN = "/bin/sh -c '{said}; eval \"$SSH_ORIGINAL_COMMAND\"'"

Greeted = Callable[[str], Connection]


@pytest.fixture
def greeted(make_sshd: Callable[..., Sshd], client: Client) -> Greeted:
    """A host whose login shell does something before every command."""

    def make(said: str) -> Connection:
        server = make_sshd(config=f"ForceCommand {LOGIN.format(said=said)}")
        return client.pool(server.host()).connection("node01")

    return make


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_a_mark_is_found_wherever_it_is_cut(size: int) -> None:
    beginning = Beginning("mark")
    sent = b"WELCOME\n\xff+ echo mark-out >&2\nno end of linemark-out\nits \xff own\nmark-out\n"
    pieces = [sent[at : at + size] for at in range(0, len(sent), size)]
    own = b"".join(beginning.feed("stdout", piece) for piece in pieces)
    assert own == b"its \xff own\nmark-out\n"
    assert beginning.before("stdout").endswith("no end of line")


def test_of_what_is_said_without_end_only_the_last_is_kept() -> None:
    beginning = Beginning("mark")
    for _ in range(100):
        assert beginning.feed("stdout", b"y\n" * 5000) == b""
    assert len(beginning.said) < 1 << 17
    assert beginning.feed("stdout", b"mark-out\nx") == b"x"


@pytest.mark.parametrize(
    "said",
    [
        "echo WELCOME",
        "echo WELCOME >&2",
        "echo WELCOME; echo WELCOME >&2; printf no-end; printf no-end >&2",
        "set -x",
        "head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2",
    ],
)
def test_only_what_the_command_says_is_its_output(greeted: Greeted, said: str) -> None:
    connection = greeted(said)
    result = connection.run(["sh", "-c", "echo out; echo err >&2; exit 7"])
    assert (result.stdout, result.stderr, result.exit_status) == ("out\n", "err\n", 7)
    assert connection.run(["cat"], stdin="text").stdout == "text"
    script = connection.script('echo "$1"\n', ["word"])
    assert (script.stdout, script.stderr) == ("word\n", "")
    assert connection.run(["true"]).stderr == ""


def test_one_stream_for_both_shows_no_mark(greeted: Greeted) -> None:
    result = greeted("echo WELCOME; exec 2>&1").run(["sh", "-c", "echo out; echo err >&2"])
    assert (result.stdout, result.stderr) == ("out\nerr\n", "")


def test_lines_still_come_as_they_are_written(greeted: Greeted) -> None:
    connection = greeted("echo WELCOME")
    seen: list[tuple[str, str, float]] = []
    connection.stream(
        ["sh", "-c", "echo a; sleep 1; echo b >&2"],
        lambda stream, line: seen.append((stream, line, time.monotonic())),
    )
    assert [(stream, line) for stream, line, _ in seen] == [("stdout", "a"), ("stderr", "b")]
    assert seen[1][2] - seen[0][2] > 0.7


@pytest.mark.parametrize("to", ["", " >&2"])
@pytest.mark.parametrize("status", [0, 1])
def test_a_login_shell_that_runs_nothing_is_quoted(greeted: Greeted, to: str, status: int) -> None:
    connection = greeted(f"echo This account is not available.{to}; exit {status}")
    for act in (
        lambda: connection.run(["true"]),
        lambda: connection.script("true\n"),
        lambda: connection.stream(["true"], lambda stream, line: None),
    ):
        with pytest.raises(UnreachableError) as caught:
            act()
        said = "the login shell does not run commands: This account is not available."
        assert (caught.value.what, caught.value.where) == (said, "node01")


def test_a_login_shell_that_asks_something_is_quoted(greeted: Greeted) -> None:
    connection = greeted("echo Continue?; read answer")
    with pytest.raises(DeploymentError) as caught:
        connection.run(["true"], timeout=3)
    assert "true took more than 3 s" in str(caught.value)
    assert "the login shell had not begun it, and said: Continue?" in str(caught.value)


def test_nothing_costs_another_session(make_sshd: Callable[..., Sshd], client: Client) -> None:
    server = make_sshd()
    client.pool(server.host()).connection("node01").run(["true"])
    assert server.sessions() == 1
