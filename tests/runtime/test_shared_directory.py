"""`/var/tmp/orc`, where every login may write: what another has put there leads nowhere else."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli.plan_text import plan_text
from orchestrator.runtime.container import FILES_DIRECTORY, Container
from orchestrator.runtime.history_scripts import append_history_script, read_history_script
from orchestrator.runtime.lock_scripts import (
    LOST,
    Kind,
    beat_lock_script,
    list_locks_script,
    release_lock_script,
    take_lock_script,
)
from orchestrator.runtime.scripts import CANNOT_WRITE, Script, start_script, stop_script
from tests.cli.plans import rack
from tests.planning.builders import make_plan

IS_LINK = "is a symbolic link, which is not followed"


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "orc"


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """Where nobody but its owner may have anything written."""
    path = tmp_path / "elsewhere"
    path.mkdir()
    (path / "owner").write_text("other\nsecret\n")
    return path


def run(script: Script, base: Path) -> subprocess.CompletedProcess[str]:
    text = script.text.replace(FILES_DIRECTORY, str(base))
    words = ["sh", "-s", "--", *script.arguments]
    environment = {**os.environ, "PATH": f"{base.parent}:{os.environ['PATH']}", "CDPATH": "/tmp"}
    return subprocess.run(
        words, input=text, capture_output=True, text=True, timeout=30, cwd=base.parent,
        env=environment,
    )  # fmt: skip


def unharmed(elsewhere: Path) -> bool:
    return [path.name for path in elsewhere.iterdir()] == ["owner"] and (
        elsewhere / "owner"
    ).read_text() == "other\nsecret\n"


def link(base: Path, below: str, target: Path) -> None:
    path = base / below
    path.parent.mkdir(exist_ok=True, parents=True)
    path.symlink_to(target)


@pytest.mark.parametrize("dangling", [False, True])
@pytest.mark.parametrize("kind", ["locks", "watches"])
@pytest.mark.parametrize("below", ["", "KIND", "KIND/kimi"])
def test_no_lock_is_taken_through_a_link(
    base: Path, elsewhere: Path, below: str, kind: Kind, dangling: bool
) -> None:
    link(base, below.replace("KIND", kind), elsewhere / "new" if dangling else elsewhere)
    taken = run(take_lock_script(kind, "kimi", "me", "{}", ("any", "other")), base)
    assert taken.returncode == CANNOT_WRITE
    path = str(base / below.replace("KIND", kind)).rstrip("/")
    assert taken.stderr.splitlines()[-1] == f"{path} {IS_LINK}"
    others = run(list_locks_script(kind), base)
    assert "secret" not in others.stdout
    if below != "KIND/kimi":
        assert others.returncode == CANNOT_WRITE and IS_LINK in others.stderr
        assert run(beat_lock_script(kind, "kimi", "other"), base).returncode == CANNOT_WRITE
    else:
        assert run(beat_lock_script(kind, "kimi", "other"), base).returncode == LOST
        assert run(release_lock_script(kind, "kimi", "other"), base).returncode == LOST
    assert unharmed(elsewhere)


def test_a_lock_is_not_written_through_a_link_in_it(base: Path, elsewhere: Path) -> None:
    link(base, "locks/kimi/owner", elsewhere)
    assert run(take_lock_script("locks", "kimi", "me", "{}"), base).returncode == CANNOT_WRITE
    assert unharmed(elsewhere)
    link(base, "locks/kimi/owner", elsewhere / "owner")
    assert run(take_lock_script("locks", "kimi", "me", "{}"), base).returncode == 0
    assert (base / "locks" / "kimi" / "owner").read_text() == "me\n{}\n"
    assert unharmed(elsewhere)


@pytest.mark.parametrize("dangling", [False, True])
@pytest.mark.parametrize("below", ["", "history"])
def test_no_history_is_written_or_read_through_a_link(
    base: Path, elsewhere: Path, below: str, dangling: bool
) -> None:
    link(base, below, elsewhere / "new" if dangling else elsewhere)
    written = run(append_history_script("kimi", "line"), base)
    assert written.returncode == CANNOT_WRITE
    assert written.stderr.splitlines()[-1] == f"{str(base / below).rstrip('/')} {IS_LINK}"
    assert unharmed(elsewhere)
    if not dangling and not below:
        (elsewhere / "history").mkdir()
        (elsewhere / "history" / "kimi.0.jsonl").write_text("theirs\n")
        read = run(read_history_script("kimi"), base)
        assert (read.stdout, read.returncode) == ("", CANNOT_WRITE)
        assert IS_LINK in read.stderr


def test_history_is_not_read_through_a_link_to_a_file(base: Path, elsewhere: Path) -> None:
    link(base, "history/kimi.7.jsonl", elsewhere / "owner")
    clock, *lines = run(read_history_script("kimi"), base).stdout.splitlines()
    assert float(clock) > 1.7e9 and lines == []


@pytest.mark.skipif(os.getuid() != 0, reason="gives a file to another")
def test_history_is_not_written_into_a_file_of_another(base: Path) -> None:
    run(append_history_script("kimi", "one"), base)
    (path,) = (base / "history").iterdir()
    os.chown(path, 65534, 65534)
    said = run(append_history_script("kimi", "two"), base)
    assert said.returncode == CANNOT_WRITE and "not a file of this login" in said.stderr
    assert path.read_text() == "one\n"


def container() -> Container:
    files = {"/etc/a b.json": "content\n", "/etc/c": "more\n"}
    return Container("orc-kimi-r0-n0", "vllm:1", ("vllm",), files=files)


def docker(base: Path, text: str) -> None:
    path = base.parent / "docker"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_the_files_of_a_container_lie_where_everybody_may_read_them(base: Path) -> None:
    docker(base, "exit 1")
    for _ in range(2):  # what is left of an earlier start makes room
        started = run(start_script(container(), {"A": "1"}, "kimi", ["true"]), base)
        assert (started.returncode, started.stderr) == (0, "")
        (base / "orc-kimi-r0-n0" / "old").touch()
    (base / "orc-kimi-r0-n0" / "old").unlink()
    files = {path.name: path for path in (base / "orc-kimi-r0-n0").iterdir()}
    assert {name: path.read_text() for name, path in files.items()} == {
        "a b.json": "content\n",
        "c": "more\n",
    }
    modes = [base, base / "orc-kimi-r0-n0", *files.values()]
    assert [oct(path.stat().st_mode & 0o7777) for path in modes] == [
        *("0o1777", "0o755", "0o644", "0o644")
    ]


def test_the_files_of_a_container_are_not_written_through_a_link(
    base: Path, elsewhere: Path
) -> None:
    docker(base, "exit 1")
    link(base, "", elsewhere)
    started = run(start_script(container(), {"A": "1"}, "kimi", ["true"]), base)
    assert started.returncode == CANNOT_WRITE and IS_LINK in started.stderr
    assert unharmed(elsewhere)


@pytest.mark.parametrize(
    "selection",
    [
        {"strategy": "single_node_tp", "kv_offload": "kv_store_centralized_mooncake"},
        {"strategy": "single_node_tp", "kv_offload": "kv_store_distributed_mooncake"},
        {"strategy": "pd_cluster", "pools": {"prefill": 1, "decode": 1}, "replicas": 2},
    ],
    ids=["centralized store", "distributed store", "prefill and decode"],
)
def test_the_files_that_a_start_writes_are_those_that_the_plan_shows(
    base: Path, tmp_path: Path, selection: dict[str, Any]
) -> None:
    docker(base, "exit 1")
    made = make_plan(tmp_path, rack(4), **selection)
    document = made.to_dict()
    nodes = [*document["services"], *document["nodes"], document["router"]]
    shown = {
        (node["name"], path.rpartition("/")[2]): content
        for node in nodes
        if node
        for path, content in node["files"].items()
    }
    for spec in made.everything:
        script = start_script(spec.container, {}, spec.deployment, ["true"])
        assert run(script, base).returncode == 0
    written = {(path.parent.name, path.name): path.read_text() for path in base.glob("*/*")}
    assert written == shown != {}
    text = plan_text(made)
    assert all(content.rstrip() in text for content in shown.values())


@pytest.mark.parametrize("linked", [False, True])
def test_only_the_own_files_of_a_container_go_with_it(
    base: Path, elsewhere: Path, linked: bool
) -> None:
    said = 'case "$*" in *Labels*) echo kimi ;; *Name*) echo /orc-kimi-r0-n0 ;; esac'
    docker(base, said)
    there = elsewhere if linked else base
    (there / "orc-kimi-r0-n0").mkdir(parents=True)
    (there / "orc-other-r0-n0").mkdir()
    if linked:
        link(base, "", elsewhere)
    stopped = run(stop_script(["1"], "kimi", seconds=1, remove=True), base)
    assert (stopped.returncode, stopped.stderr) == (0, "")
    assert (there / "orc-kimi-r0-n0").exists() == linked
    assert (there / "orc-other-r0-n0").exists()
