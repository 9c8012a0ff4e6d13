"""Logs of several ranks, merged by time."""

from __future__ import annotations

from orchestrator.runtime.log_lines import merged, parse_log_line


def test_the_time_is_cut_off_and_made_comparable() -> None:
    line = parse_log_line("a", "2026-11-30T18:04:26.4Z Loading weights")
    assert (line.time, line.text) == ("2026-11-30T18:04:26.400000000Z", "Loading weights")
    assert parse_log_line("a", "2026-11-30T18:04:26Z x").time == "2026-11-30T18:04:26.000000000Z"


def test_an_empty_line_and_a_line_without_time_are_kept() -> None:
    assert parse_log_line("a", "2026-11-30T18:04:26.4Z ").text == ""
    line = parse_log_line("a", "Error from daemon", "2026-11-30T18:04:26.400000000Z")
    assert (line.time, line.text) == ("2026-11-30T18:04:26.400000000Z", "Error from daemon")


def test_lines_of_many_containers_come_by_time_stdout_and_stderr_mixed() -> None:
    logs = {
        "head": ["2026-11-30T18:04:01.1Z one", "2026-11-30T18:04:03.0Z three",
                 "2026-11-30T18:04:02.0Z two (from stderr)"],
        "worker": ["2026-11-30T18:04:02.5Z between"],
    }  # fmt: skip
    texts = [line.text for line in merged(logs)]
    assert texts == ["one", "two (from stderr)", "between", "three"]


def test_lines_of_the_same_moment_keep_their_order() -> None:
    same = "2026-11-30T18:04:01.000000001Z "
    lines = [line.text for line in merged({"a": [same + "z", same + "a", same + "m"]})]
    assert lines == ["z", "a", "m"]
