"""The scripts' arguments and texts; what they do to a real docker is tested on the fleet."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from orchestrator.errors import InputError
from orchestrator.runtime import scripts
from orchestrator.runtime.bench import inside_words
from orchestrator.runtime.container import Container
from orchestrator.runtime.container_details import details_script
from orchestrator.runtime.docker_commands import logs_command, pull_command
from orchestrator.secret import Secret

CONTAINER = Container(
    name="orc-kimi-r0-n0",
    image="vllm/vllm-openai:v0.33.0",
    command=("vllm", "serve", "m"),
    env_file=".orc/orc-kimi-r0-n0.env",
)


def test_logs_are_asked_with_times_and_only_what_was_wanted() -> None:
    assert logs_command("c") == ["docker", "logs", "--timestamps", "c"]
    assert logs_command("c", tail=40, since="10m", follow=True) == [
        *("docker", "logs", "--timestamps", "--tail", "40", "--since", "10m", "--follow", "c")
    ]


def test_pull_is_a_plain_pull() -> None:
    assert pull_command("a@sha256:1") == ["docker", "pull", "a@sha256:1"]


def test_an_environment_file_has_one_unquoted_value_a_line() -> None:
    env: dict[str, str | Secret] = {
        "A": "1",
        "B": 'with "quotes" and $x',
        "TOKEN": Secret("s3cret-value"),
        "EMPTY": "",
    }
    text = scripts.environment_file(env)
    assert text == 'A=1\nB=with "quotes" and $x\nTOKEN=s3cret-value\nEMPTY=\n'


@pytest.mark.parametrize("value", ["two\nlines", "carriage\rreturn", "nul\0"])
def test_a_value_with_a_line_break_is_refused_without_showing_it(value: str) -> None:
    with pytest.raises(InputError, match="the value of KEY holds a line break") as caught:
        scripts.environment_file({"KEY": Secret(value)})
    assert value not in str(caught.value)


@pytest.mark.parametrize("character", ["x", "é"])
def test_a_value_longer_than_docker_reads_a_line_is_refused(character: str) -> None:
    size = len(character.encode())
    most = character * ((65535 - len("KEY=")) // size)
    assert scripts.environment_file({"KEY": most}) == f"KEY={most}\n"
    with pytest.raises(InputError) as caught:
        scripts.environment_file({"KEY": Secret(most + character)})
    length = len("KEY=") + len((most + character).encode())
    said = f"the value of KEY is too long: {length} bytes with its name, at most 65535"
    assert str(caught.value).startswith(said)
    assert character * 9 not in str(caught.value)


@pytest.mark.parametrize("name", ["", "A B", "A=B", "#A", "A\nB"])
def test_a_name_that_docker_would_misread_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="cannot be the name"):
        scripts.environment_file({name: "1"})


def test_a_secret_is_in_the_text_and_in_no_argument_or_repr() -> None:
    script = scripts.start_script(
        CONTAINER, {"HF_TOKEN": Secret("hf_secret")}, "kimi", ["docker", "run", "x"]
    )
    assert "HF_TOKEN=hf_secret\n" in script.text
    assert "hf_secret" not in " ".join(script.arguments)
    assert "hf_secret" not in repr(script)
    assert script.arguments == ("kimi", CONTAINER.name, CONTAINER.env_file, "docker", "run", "x")


def test_an_environment_value_cannot_end_the_environment_early() -> None:
    """The delimiter has no `=`, and every line of the file has one."""
    script = scripts.start_script(CONTAINER, {"A": "END_OF_ENVIRONMENT"}, "kimi", ["true"])
    assert script.text.splitlines().count("END_OF_ENVIRONMENT") == 1


def test_a_script_that_breaks_off_on_its_way_does_nothing() -> None:
    """A cut connection leaves half a script in the shell's input."""
    script = scripts.stop_script(["c"], "kimi", seconds=60, remove=True)
    for length in range(0, len(script.text) - len('stop "$@"\n'), 37):
        result = subprocess.run(
            ["sh", "-s", "--", *script.arguments],
            input=script.text[:length],
            env={"PATH": "/nonexistent"},
            capture_output=True,
            text=True,
            executable="/bin/sh",
            check=False,
        )
        assert "docker" not in result.stderr, length


@pytest.mark.parametrize(
    "script",
    [
        scripts.observe_script(["b"]),
        scripts.start_script(CONTAINER, {"A": "1"}, "kimi", ["true"]),
        scripts.stop_script(["c"], "kimi", seconds=60, remove=True),
        scripts.log_tails_script(["c"], 40),
        scripts.disk_free_script(),
        scripts.observe_script([], gpus=True),
        scripts.matching_logs_script("c", "ERROR", since="60s"),
        details_script("kimi", "0a1b", ["MODE"], ["vllm:1"]),
        scripts.Script(inside_words("0a1b", ["vllm", "bench", "serve"])[2]),
    ],
    ids=["observe", "start", "stop", "tails", "disk", "gpus", "matching", "details", "bench"],
)
def test_every_script_is_posix_sh(script: scripts.Script) -> None:
    check = subprocess.run(["sh", "-n"], input=script.text, text=True, capture_output=True)
    assert (check.returncode, check.stderr) == (0, "")


@pytest.mark.parametrize("reads", [True, False], ids=["docker reads it", "docker fails before"])
def test_the_environment_is_only_ever_in_a_pipe(tmp_path: Path, reads: bool) -> None:
    """Whatever kills it meanwhile, no value is left on the disk."""
    docker = tmp_path / "docker"
    look = 'stat -c "%F %a" "$3"; cat "$3"' if reads else "exit 125"
    docker.write_text(f'#!/bin/sh\n[ "$1" = run ] || exit 1\n{look}\n')
    docker.chmod(0o755)
    run = ["docker", "run", ".orc/orc-kimi-r0-n0.env"]
    long = "x" * 65_000  # together more than a pipe holds
    script = scripts.start_script(
        CONTAINER, {**dict.fromkeys(("A1", "A2", "A3"), Secret(long)), "B": "2"}, "kimi",
        [run[0], run[1], "--env-file", run[2]],
    )  # fmt: skip
    done = subprocess.run(
        ["sh", "-s", "--", *script.arguments],
        input=script.text,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    wanted = f"fifo 600\nA1={long}\nA2={long}\nA3={long}\nB=2\n" if reads else ""
    assert (done.returncode, done.stdout) == (0 if reads else 125, wanted)
    assert list((tmp_path / ".orc").iterdir()) == []
