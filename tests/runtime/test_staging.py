"""What fetches a model's files: a container that is told everything over its stdin."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from orchestrator.runtime.container import Container
from orchestrator.runtime.staging import Staged, parse_staged, staging_command, staging_program
from orchestrator.secret import Secret

CONTAINER = Container(
    "orc-a-r0-n0", "image:1", ("vllm", "serve", "a/b"), volumes=("/data/hf:/root/.cache",)
)
QUOTED = 'it\'s "so"\\n'
ENV: dict[str, str | Secret] = {"HF_TOKEN": Secret("s3cret"), "QUOTED": QUOTED}


def test_the_command_has_the_mounts_and_no_value_of_the_environment() -> None:
    words = staging_command(CONTAINER, "image@sha256:0", "chat")
    assert words[:2] == ["docker", "run"] and "--rm" in words
    assert words[words.index("--volume") + 1] == "/data/hf:/root/.cache"
    assert words[words.index("--label") + 1] == "orc.staging=chat"
    assert words[words.index("--entrypoint") + 2] == "image@sha256:0"
    assert "s3cret" not in " ".join(words)


def test_a_path_is_looked_for_and_no_hub_is_asked(tmp_path: Path) -> None:
    program = staging_program([f"{tmp_path}", "/nowhere"], ENV)
    (tmp_path / "config.json").touch()
    done = subprocess.run(
        [sys.executable, "-"], input=program, capture_output=True, text=True, check=True
    )
    told = [parse_staged(line) for line in done.stdout.splitlines()]
    assert told == [
        Staged(f"{tmp_path}", "there"),
        Staged("/nowhere", "failed", "not on the host"),
    ]


def test_the_programs_environment_is_what_was_given() -> None:
    program = staging_program([], ENV) + "\nprint([os.environ[n] for n in ('HF_TOKEN', 'QUOTED')])"
    done = subprocess.run(
        [sys.executable, "-"], input=program, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == repr(["s3cret", QUOTED])


def test_other_output_is_none_of_the_programs() -> None:
    assert parse_staged("Fetching 3 files") is None
    assert parse_staged('{"level": "info"}') is None
    assert parse_staged("[1]") is None
