"""How many parameters a recipe certainly means by a rounded number."""

from __future__ import annotations

import pytest

from orchestrator.recipes.resolve import fewest


@pytest.mark.parametrize(
    ("text", "number"),
    [("671B", 670.5e9), ("30.5B", 30.45e9), ("1T", 0.5e12), ("~8B", None), ("Undisclosed", None)],
)
def test_half_of_the_last_digit_is_not_certain(text: str, number: float | None) -> None:
    assert fewest(text) == (None if number is None else pytest.approx(number))
