"""`make test` runs every test, and none twice."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

from _pytest.mark.expression import Expression

MARKERS = ("fleet", "vllm", "alone", "last")


def matches(part: str, marks: tuple[str, ...]) -> bool:
    def has(name: str, /, **_: object) -> bool:
        return name in marks

    return Expression.compile(part).evaluate(has)


def test_every_test_is_in_one_part_of_make_test() -> None:
    makefile = (Path(__file__).parents[1] / "Makefile").read_text()
    parts = re.findall(r'\$\(PYTEST\) .*-m "?([^"\n]+)"?', makefile)
    assert len(parts) == 3
    for size in range(len(MARKERS) + 1):
        for marks in itertools.combinations(MARKERS, size):
            if "alone" in marks and ("fleet" not in marks or "last" in marks):
                continue  # what is alone is so for its fleet
            takes = [part for part in parts if matches(part, marks)]
            assert len(takes) == 1, (marks, takes)
