"""Who holds a lock, and whether its process is gone beyond doubt."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from orchestrator.play.holder import Holder, is_gone, parse_holder, this_process

TALK = "from orchestrator.play.holder import this_process; print(this_process('orc up').to_json())"


def test_this_process_is_not_gone_and_says_who_it_is() -> None:
    holder = this_process("orc up --name kimi")
    assert holder.pid == os.getpid()
    assert not is_gone(holder, silent=10_000)
    assert f"pid {os.getpid()}" in str(holder) and "orc up --name kimi" in str(holder)
    assert this_process("x").id != holder.id


def test_a_process_that_has_ended_is_gone() -> None:
    said = subprocess.run([sys.executable, "-c", TALK], capture_output=True, text=True, check=True)
    assert is_gone(parse_holder(said.stdout), silent=0)


def test_a_process_number_that_another_has_now_is_no_sign_of_life() -> None:
    assert is_gone(replace(this_process("orc"), started="1"), silent=0)


@pytest.mark.parametrize("field", ["machine", "machine_id"])
def test_of_another_machine_nothing_is_known(field: str) -> None:
    gone = replace(this_process("orc"), pid=2**22 + 1, started="1")
    assert is_gone(gone, silent=0)
    assert not is_gone(replace(gone, **{field: "elsewhere"}), silent=10_000)  # type: ignore[arg-type]


def test_of_another_container_of_this_machine_nothing_is_known() -> None:
    gone = replace(this_process("orc"), pid=2**22 + 1, started="1")
    kernel = gone.boot.partition(" ")[0]
    assert not is_gone(replace(gone, boot=f"{kernel} pid:[1]"), silent=10_000)


def test_after_a_reboot_it_is_gone_once_it_has_been_silent() -> None:
    """Two machines may be copies of one; then the other one still sends signs of life."""
    before = replace(this_process("orc"), boot="another-boot pid:[1]")
    assert not is_gone(before, silent=10)
    assert is_gone(before, silent=100)


@pytest.mark.parametrize(
    "line", ["", "no json", "[]", "{}", '{"id": "x", "since": "never"}', '{"pid": 3}']
)
def test_what_cannot_be_read_is_an_unknown_holder_and_not_gone(line: str) -> None:
    holder = parse_holder(line)
    assert holder.id == "unknown" and holder.who == "unknown@unknown"
    assert not is_gone(holder, silent=10_000)


def test_a_holder_reads_back_as_it_was_written() -> None:
    holder = replace(this_process("orc up"), ports={"node01": [8000, 29501]})
    assert parse_holder(holder.to_json()) == holder


def test_what_others_wrote_moves_no_cursor() -> None:
    assert "\x1b" not in str(Holder("1", user="a\x1b[2J", command="b\nc"))
    assert "\n" not in str(Holder("1", command="b\nc"))
