"""The systemd unit of `orc watch`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from orchestrator.cli.watch_unit import (
    next_commands,
    unit_name,
    unit_places,
    unit_text,
    write_unit,
)
from orchestrator.errors import InputError

ENVIRONMENT = Path("/etc/orc/watch.env")


def exec_start(*words: str) -> str:
    text = unit_text(words, ENVIRONMENT, user=False)
    (line,) = [line for line in text.splitlines() if line.startswith("ExecStart=")]
    return line.partition(" -m orchestrator ")[2]


@pytest.mark.parametrize(
    ("word", "written"),
    [
        ("/data/my rack.yml", '"/data/my rack.yml"'),
        ("50%", "50%%"),
        ("$HOME", "$$HOME"),
        ("node[01:16]:!node07", "node[01:16]:!node07"),
        ('a"b', '"a\\"b"'),
        ("a\\b", '"a\\\\b"'),
        ("it's", '"it\'s"'),
    ],
)
def test_words_are_as_systemd_reads_them(word: str, written: str) -> None:
    assert exec_start("watch", word) == f"watch {written}"


def test_it_starts_at_boot_and_again_when_it_ends_and_no_secret_is_in_it() -> None:
    system = unit_text(["watch"], ENVIRONMENT, user=False)
    assert "EnvironmentFile=-/etc/orc/watch.env" in system
    assert "Restart=always" in system and "WantedBy=multi-user.target" in system
    assert "WantedBy=default.target" in unit_text(["watch"], ENVIRONMENT, user=True)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd here")
def test_systemd_finds_nothing_wrong_with_it(tmp_path: Path) -> None:
    path = tmp_path / unit_name("kimi")
    write_unit(path, unit_text(["watch", "my rack", "50%"], ENVIRONMENT, user=False))
    said = subprocess.run(["systemd-analyze", "verify", str(path)], capture_output=True, text=True)
    assert path.name not in said.stderr, said.stderr


def test_where_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert unit_places(user=False) == (Path("/etc/systemd/system"), ENVIRONMENT)
    monkeypatch.setenv("XDG_CONFIG_HOME", "/home/ann/.conf")
    directory, environment = unit_places(user=True)
    assert directory == Path("/home/ann/.conf/systemd/user")
    assert environment == Path("/home/ann/.conf/orc/watch.env")
    assert unit_name("kimi") == "orc-watch-kimi.service" and unit_name(None) == "orc-watch.service"
    assert next_commands("x.service", user=False)[-1] == "systemctl enable --now x.service"
    assert "systemctl --user daemon-reload" in next_commands("x.service", user=True)


def test_a_directory_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        write_unit(tmp_path / "file" / "orc-watch.service", "text")
