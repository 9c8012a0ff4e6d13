"""Flags that a version of vLLM does not have, told before anything starts."""

from __future__ import annotations

import pytest

from orchestrator.deployment import Deployment
from orchestrator.recipes.catalog import Catalog


def notes(own: Catalog, **args: object) -> list[str]:
    deployment = Deployment.model_validate({"recipe": "moonshotai/Kimi-K2.6", "args": args})
    return [note for note in own.resolve(deployment, "h200").notes if "your args" in note]


def test_a_misspelt_argument_is_told_with_the_nearest_flag(own: Catalog) -> None:
    assert notes(own, **{"max-modell-len": 4096}) == [
        "your args: vLLM 0.32.0 has no --max-modell-len, and would not start with it; "
        "did you mean --max-model-len?"
    ]
    (note,) = notes(own, **{"zzz.key": 1})
    assert note.endswith("has no --zzz, and would not start with it")


@pytest.mark.parametrize(
    "flag",
    ["max_model_len", "no-enable-prefix-caching", "-tp", "attention-config.backend", "served"],
)
def test_every_spelling_that_vllm_takes_is_known(own: Catalog, flag: str) -> None:
    assert notes(own, **{flag: 8}) == []
