"""The lock's and the history's scripts, run by sh in a directory of the test's own."""

from __future__ import annotations

import json
import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from orchestrator.runtime.container import FILES_DIRECTORY
from orchestrator.runtime.history_scripts import (
    MOST_BYTES,
    append_history_script,
    read_history_script,
)
from orchestrator.runtime.lock_scripts import (
    HELD,
    LOST,
    beat_lock_script,
    list_locks_script,
    parse_locks,
    release_lock_script,
    take_lock_script,
)
from orchestrator.runtime.scripts import CANNOT_WRITE, Script


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "orc"


def run(script: Script, base: Path) -> subprocess.CompletedProcess[str]:
    text = script.text.replace(FILES_DIRECTORY, str(base))
    words = ["sh", "-s", "--", *script.arguments]
    return subprocess.run(words, input=text, capture_output=True, text=True, timeout=30)


def take(base: Path, who: str, *, replaceable: tuple[str, ...] = (), name: str = "kimi") -> int:
    script = take_lock_script("locks", name, who, f'{{"of":"{who}"}}', replaceable)
    return run(script, base).returncode


def locks(base: Path) -> dict[str, str]:
    """The owner's line by the lock's name."""
    said = run(list_locks_script("locks"), base)
    assert said.returncode == 0 and said.stderr == ""
    return {name: line for name, (_, line) in parse_locks(said.stdout).items()}


def test_the_first_one_has_it_and_the_second_is_shown_whose_it_is(base: Path) -> None:
    assert locks(base) == {}
    assert take(base, "first") == 0
    second = run(take_lock_script("locks", "kimi", "second", "{}"), base)
    assert second.returncode == HELD
    assert [line for _, line in parse_locks(second.stdout).values()] == ['{"of":"first"}']
    assert locks(base) == {"kimi": '{"of":"first"}'}


def test_of_many_at_the_same_time_exactly_one_has_it(base: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        statuses = list(pool.map(lambda n: take(base, f"run{n}"), range(16)))
    assert sorted(statuses) == [0, *[HELD] * 15]
    assert locks(base) == {"kimi": f'{{"of":"run{statuses.index(0)}"}}'}


def test_of_many_that_take_it_over_at_the_same_time_exactly_one_has_it(base: Path) -> None:
    assert take(base, "gone") == 0
    with ThreadPoolExecutor(16) as pool:
        statuses = list(pool.map(lambda n: take(base, f"run{n}", replaceable=("gone",)), range(16)))
    assert sorted(statuses) == [0, *[HELD] * 15]


def test_the_holder_may_take_it_again_with_other_words(base: Path) -> None:
    assert take(base, "me") == 0
    script = take_lock_script("locks", "kimi", "me", "more")
    assert run(script, base).returncode == 0
    assert locks(base) == {"kimi": "more"}


def test_only_a_holder_that_was_named_is_replaced(base: Path) -> None:
    take(base, "first")
    assert take(base, "second", replaceable=("another",)) == HELD
    assert take(base, "second", replaceable=("another", "first")) == 0
    assert locks(base) == {"kimi": '{"of":"second"}'}


def test_whoever_takes_a_lock_is_told_of_the_others_of_the_host(base: Path) -> None:
    take(base, "a", name="one")
    said = run(take_lock_script("locks", "two", "b", "{}"), base)
    assert {name: line for name, (_, line) in parse_locks(said.stdout).items()} == {
        "one": '{"of":"a"}'
    }


def test_a_sign_of_life_makes_it_young_again(base: Path) -> None:
    take(base, "me")
    owner = base / "locks" / "kimi" / "owner"
    os.utime(owner, (time.time() - 900, time.time() - 900))
    (age, _) = parse_locks(run(list_locks_script("locks"), base).stdout)["kimi"]
    assert age >= 900
    assert run(beat_lock_script("locks", "kimi", "me"), base).returncode == 0
    (age, _) = parse_locks(run(list_locks_script("locks"), base).stdout)["kimi"]
    assert age < 60


def test_whoever_has_lost_it_is_told_to_whom_and_releases_nothing(base: Path) -> None:
    take(base, "me")
    take(base, "other", replaceable=("me",))
    beat = run(beat_lock_script("locks", "kimi", "me"), base)
    assert beat.returncode == LOST
    assert parse_locks(beat.stdout)["kimi"][1] == '{"of":"other"}'
    assert run(release_lock_script("locks", "kimi", "me"), base).returncode == LOST
    assert locks(base) == {"kimi": '{"of":"other"}'}


def test_released_it_is_free_and_a_sign_of_life_says_that_it_is_lost(base: Path) -> None:
    take(base, "me")
    released = run(release_lock_script("locks", "kimi", "me"), base)
    assert released.returncode == 0
    assert parse_locks(released.stdout)["kimi"][1] == '{"of":"me"}'
    assert run(beat_lock_script("locks", "kimi", "me"), base).returncode == LOST
    assert list((base / "locks").iterdir()) == []
    assert take(base, "next") == 0


def test_on_request_everybodys_lock_is_released(base: Path) -> None:
    take(base, "me")
    assert run(release_lock_script("locks", "kimi"), base).returncode == 0
    assert run(release_lock_script("locks", "kimi"), base).returncode == LOST


def test_a_lock_without_an_owner_was_left_by_a_crash_and_is_free(base: Path) -> None:
    take(base, "me")
    (base / "locks" / "kimi" / "owner").unlink()
    assert locks(base) == {"kimi": ""}
    assert take(base, "next") == 0


def test_a_watch_is_another_lock_than_a_change(base: Path) -> None:
    take(base, "me")
    script = take_lock_script("watches", "kimi", "watch", "{}")
    assert run(script, base).returncode == 0
    assert locks(base) == {"kimi": '{"of":"me"}'}


def test_where_no_directory_can_be_made_that_is_said(base: Path) -> None:
    base.write_text("a file")
    said = run(take_lock_script("locks", "kimi", "me", "{}"), base)
    assert said.returncode == CANNOT_WRITE and "mkdir" in said.stderr


def test_every_login_may_use_the_directories_and_break_a_lock(base: Path) -> None:
    take(base, "me")
    modes = [oct(path.stat().st_mode & 0o7777) for path in (base, base / "locks")]
    assert modes == ["0o1777", "0o777"]
    assert oct((base / "locks" / "kimi").stat().st_mode & 0o7777) == "0o777"
    assert oct((base / "locks" / "kimi" / "owner").stat().st_mode & 0o7777) == "0o644"


def test_a_script_that_breaks_off_on_its_way_takes_nothing(base: Path) -> None:
    script = take_lock_script("locks", "kimi", "me", "{}")
    for length in range(0, len(script.text) - len('lock "$@"\n'), 101):
        run(Script(script.text[:length], script.arguments), base)
        assert not base.exists()


def test_history_lines_are_appended_and_read_back_by_deployment(base: Path) -> None:
    for name, line in (("a", "one"), ("b", "two"), ("a", 'three "$x"')):
        assert run(append_history_script(name, line), base).returncode == 0
    clock, *lines = run(read_history_script("a"), base).stdout.splitlines()
    assert float(clock) > 1.7e9 and lines == ["one", 'three "$x"']
    assert sorted(run(read_history_script(), base).stdout.splitlines()[1:]) == [
        *("one", 'three "$x"', "two")
    ]
    assert run(read_history_script("c"), base).stdout.splitlines()[1:] == []


def test_a_history_line_has_the_time_of_the_hosts_clock(base: Path) -> None:
    before = time.time()
    run(append_history_script("a", '{"id":"1","groups":{}}'), base)
    clock, line = run(read_history_script("a"), base).stdout.splitlines()
    data = json.loads(line)
    assert data == {"id": "1", "groups": {}, "written": data["written"]}
    assert before <= float(data["written"]) <= float(clock)


def test_history_does_not_grow_for_ever_and_keeps_whole_lines(base: Path) -> None:
    run(append_history_script("a", "first"), base)
    (path,) = (base / "history").iterdir()
    path.write_text("".join(f"line {n} {'x' * 90}\n" for n in range(MOST_BYTES // 100)))
    run(append_history_script("a", "last " + "x" * 60_000), base)
    run(append_history_script("a", "last"), base)
    lines = path.read_text().splitlines()
    assert path.stat().st_size < MOST_BYTES
    assert lines[-1] == "last" and all(line.startswith(("line ", "last")) for line in lines)
    assert len(lines) > 4000


def test_history_is_not_written_through_a_link(base: Path, tmp_path: Path) -> None:
    run(append_history_script("a", "one"), base)
    (path,) = (base / "history").iterdir()
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_text("mine\n")
    assert run(append_history_script("a", "two"), base).returncode == CANNOT_WRITE
    path.unlink()
    path.symlink_to(tmp_path / "nowhere")
    assert run(append_history_script("a", "two"), base).returncode == CANNOT_WRITE
    assert (tmp_path / "elsewhere").read_text() == "mine\n"
    assert not (tmp_path / "nowhere").exists()
