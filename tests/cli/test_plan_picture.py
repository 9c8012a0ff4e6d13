"""`orc plan --svg` and `--draw`: where the picture goes, and what is left alone."""

from __future__ import annotations

import io
import os
import stat
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from orchestrator.cli.main import run
from orchestrator.cli.plan_picture import drawing_for
from tests.cli.plans import case, rack


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    path = tmp_path / "rack.yml"
    path.write_text(rack(2))
    recipe = ["--recipe", "moonshotai/Kimi-K2.6", "--strategy", "multi_node_tp_pp"]
    return ["plan", "-i", str(path), *recipe]


def test_the_picture_is_written_for_all_to_read_and_the_plan_is_still_printed(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "plan.svg"
    mask = os.umask(0o077)
    try:
        assert run([*command, "--svg", str(file)]) == 0
    finally:
        os.umask(mask)
    captured = capsys.readouterr()
    assert "docker run" in captured.out
    assert captured.err == f"picture: {file}\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert ET.parse(file).getroot().tag.endswith("svg")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plan.svg", "rack.yml"]


def test_a_file_that_is_there_is_replaced(command: list[str], tmp_path: Path) -> None:
    file = tmp_path / "plan.svg"
    file.write_text("an older picture" * 10_000)
    assert run([*command, "--svg", str(file)]) == 0
    ET.parse(file)


@pytest.mark.parametrize("kind", ["directory", "symbolic link", "dangling link", "pipe"])
def test_what_is_no_regular_file_is_left_alone(
    command: list[str], tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    target, there = tmp_path / "target", tmp_path / "there"
    if kind == "directory":
        there.mkdir()
    elif kind == "pipe":
        os.mkfifo(there)
    else:
        if kind == "symbolic link":
            target.write_text("precious")
        there.symlink_to(target)
    before = there.lstat()
    assert run([*command, "--svg", str(there)]) == 1
    assert "not a regular file" in capsys.readouterr().err
    assert there.lstat().st_ino == before.st_ino
    assert not target.exists() or target.read_text() == "precious"


def test_a_directory_that_is_not_there_is_one_message(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command, "--svg", str(tmp_path / "none" / "plan.svg")]) == 1
    captured = capsys.readouterr()
    assert "No such file or directory" in captured.err
    assert captured.out == ""


def test_a_dash_is_stdout_and_nothing_else_is_printed(
    command: list[str], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert run([*command, "--svg", "-"]) == 0
    captured = capfdbinary.readouterr()
    assert ET.fromstring(captured.out).tag.endswith("svg")
    assert captured.err == b""


def test_draw_stands_in_place_of_table_and_commands(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command, "--draw"]) == 0
    out = capsys.readouterr().out
    assert "┌─ node01 10.1.0.1 ─" in out
    assert "docker run" not in out
    assert "\x1b" not in out


def test_a_host_that_is_called_by_its_address_is_named_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hosts = tmp_path / "hosts.ini"
    hosts.write_text("node01 orc_hardware=h200\n")
    assert run(["plan", "-i", str(hosts), "-r", "openai/gpt-oss-120b", "--draw"]) == 0
    assert "┌─ node01 ─" in capsys.readouterr().out


@pytest.mark.parametrize("both", [["--json", "--draw"], ["--json", "--svg", "-"]])
def test_stdout_holds_one_thing(
    command: list[str], both: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command, *both]) == 3
    captured = capsys.readouterr()
    assert "stdout can hold one of" in captured.err
    assert captured.out == ""


class _Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_colours_unless_no_color_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = case(tmp_path, "pipeline over two hosts")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal = _Terminal(io.BytesIO(), encoding="utf-8")
    assert "\x1b[34m" in drawing_for(plan, terminal)
    assert "\x1b" not in drawing_for(plan, io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in drawing_for(plan, terminal)


def test_a_stream_that_cannot_encode_boxes_gets_ascii_and_columns_are_respected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = case(tmp_path, "pipeline over two hosts")
    monkeypatch.setenv("COLUMNS", "50")
    text = drawing_for(plan, io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 50
