"""Splitting into lines, wherever the pieces are cut."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.transport import lines
from orchestrator.transport.lines import LineSplitter


@given(
    st.text(st.sampled_from("ab\r\nü€😀"), max_size=40),
    st.lists(st.integers(1, 5), max_size=60),
)
def test_lines_do_not_depend_on_how_the_bytes_are_cut(text: str, sizes: list[int]) -> None:
    splitter, data, found = LineSplitter(), text.encode(), []
    for size in sizes:
        found += splitter.feed(data[:size])
        data = data[size:]
    found += splitter.feed(data) + splitter.end()
    expected = re.split("\r\n|\r|\n", text)
    assert found == (expected[:-1] if expected[-1] == "" else expected)


def test_a_progress_line_is_handed_over_at_once() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"10%\r") == ["10%"]
    assert splitter.feed(b"\nnext\n") == ["next"]


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert LineSplitter().feed(b"a\xffb\n") == ["a\ufffdb"]


def test_a_line_without_end_comes_in_pieces() -> None:
    splitter = LineSplitter()
    found = splitter.feed(b"x" * (lines.LONGEST_LINE + 5)) + splitter.end()
    assert [len(line) for line in found] == [lines.LONGEST_LINE, 5]
