"""The selection: durations, names and environment values."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from orchestrator.deployment import Deployment, seconds
from orchestrator.secret import Secret


@pytest.mark.parametrize(
    ("text", "expected"),
    [("45m", 2700), ("1h30m", 5400), ("250ms", 0.25), ("5", 5), (7, 7), ("1.5h", 5400)],
)
def test_durations_are_read_as_people_write_them(text: object, expected: float) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "soon", "5 parsecs", "m", True, "-5s"])
def test_what_is_no_duration_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="duration"):
        seconds(text)


@pytest.mark.parametrize(
    ("recipe", "name"),
    [
        ("moonshotai/Kimi-K2.6", "kimi-k2-6"),
        ("./my recipe.yaml", "my-recipe"),
        ("cases/kimi-k2.6.json", "kimi-k2-6"),
        ("///", "vllm"),
    ],
)
def test_a_name_is_made_of_the_recipes(recipe: str, name: str) -> None:
    assert Deployment(recipe=recipe).deployment_name() == name


@pytest.mark.parametrize("name", ["Kimi", "a b", "-a", "a-", "a;rm", "a" * 41, ""])
def test_a_name_that_no_container_could_bear_is_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        Deployment(recipe="a/b", name=name)


def test_environment_values_are_text() -> None:
    env = Deployment.model_validate(
        {"recipe": "a/b", "env": {"A": 1, "B": True, "C": "x", "D": Secret("y")}}
    ).env
    assert env == {"A": "1", "B": "true", "C": "x", "D": Secret("y")}
