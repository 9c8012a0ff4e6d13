from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import InputError
from tests.recipes.making import arguments, recipe_data, resolved

DATA = recipe_data(
    features={
        "tools": {"args": ["--tools"]},
        "deep": {"args": ["--deep"], "strategies": ["single_node_tp"]},
        "spec": {
            "default_mode": "mtp",
            "modes": {
                "dflash": {"args": ["--spec", "dflash"], "hardware": {"hopper": "unsupported"}},
                "mtp": {
                    "args": ["--spec", "mtp"],
                    "env": {"MTP": "1"},
                    "hardware_overrides": {"gb200": {"args": ["--spec", "mtp4"]}},
                },
                "dspark": {"args": ["--spec", "dspark"], "variants": ["fused"]},
            },
        },
        "text_only": {"args": ["--text"]},
        "encoder_parallel": {"args": ["--encoder"], "hardware": {"h100": "unsupported"}},
        "one": {"args": ["--one"], "excludes": ["other"]},
        "other": {"args": ["--other"]},
    },
    opt_in_features=["spec", "text_only", "one", "other"],
    hardware_opt_in_features={"gb200": ["encoder_parallel"]},
    variants={"fused": {"default_modes": {"spec": "dspark"}}},
)


def features(directory: Path, hardware: str = "h200", **selection: Any) -> tuple[str, ...]:
    return resolved(directory, DATA, hardware, **selection).features


def test_all_but_the_opt_in_features_are_on_by_default(tmp_path: Path) -> None:
    assert features(tmp_path) == ("tools", "deep", "encoder_parallel")
    assert features(tmp_path, "gb200") == ("tools", "deep")


def test_a_default_feature_that_cannot_be_used_is_left_out(tmp_path: Path) -> None:
    assert features(tmp_path, strategy="multi_node_tp") == ("tools", "encoder_parallel")
    assert features(tmp_path, "h100") == ("tools", "deep")


def test_a_variant_made_for_a_feature_turns_it_on_in_its_mode(tmp_path: Path) -> None:
    assert "spec=dspark" in features(tmp_path, variant="fused")


def test_named_features_are_exactly_these_in_the_recipes_order(tmp_path: Path) -> None:
    assert features(tmp_path, features=["deep", "tools"]) == ("tools", "deep")
    assert features(tmp_path, features=[]) == ()


def test_signed_features_change_the_defaults(tmp_path: Path) -> None:
    chosen = features(tmp_path, features=["+spec", "-tools"])
    assert chosen == ("deep", "spec=mtp", "encoder_parallel")


def test_a_mode_can_be_picked_and_brings_its_arguments_and_environment(tmp_path: Path) -> None:
    plain = resolved(tmp_path, DATA, features=["spec"])
    assert (arguments(plain), plain.env) == (["--spec", "mtp"], {"MTP": "1"})
    on_gb200 = resolved(tmp_path, DATA, "gb200", features=["spec"])
    assert arguments(on_gb200) == ["--spec", "mtp4"]
    picked = resolved(tmp_path, DATA, "b200", features=["spec=dflash"])
    assert arguments(picked) == ["--spec", "dflash"]


def test_a_feature_that_is_asked_for_turns_off_a_default_that_it_excludes(tmp_path: Path) -> None:
    assert features(tmp_path, features=["+text_only"]) == ("tools", "deep", "text_only")


@pytest.mark.parametrize(
    ("selection", "what", "detail"),
    [
        ({"features": ["tool"]}, "the recipe has no feature 'tool'", "did you mean 'tools'?"),
        (
            {"features": ["tools", "+spec"]},
            "features are either exactly those named",
            "tools, +spec",
        ),
        ({"features": ["spec=mpt"]}, "feature 'spec' cannot be used here", "it has no mode 'mpt'"),
        (
            {"features": ["spec=dflash"]},
            "feature 'spec' cannot be used here",
            "mode 'dflash' does not run with variant 'default' on h200; mtp does",
        ),
        (
            {"features": ["spec=dspark"]},
            "feature 'spec' cannot be used here",
            "does not run with variant 'default'",
        ),
        (
            {"features": ["deep"], "strategy": "multi_node_tp"},
            "feature 'deep' cannot be used here",
            "it works with single_node_tp only, not multi_node_tp",
        ),
        (
            {"features": ["one", "other"]},
            "feature 'other' cannot be used here",
            "it and 'one' exclude each other",
        ),
        (
            {"features": ["text_only", "encoder_parallel"]},
            "feature 'encoder_parallel' cannot be used here",
            "it and 'text_only' exclude each other",
        ),
        ({"features": ["tools=x"]}, "feature 'tools' cannot be used here", "it has no modes"),
        ({"features": ["-tools=x"]}, "'-tools=x' takes a feature away", "without a mode"),
    ],
)
def test_a_feature_that_cannot_be_is_an_error_that_says_why(
    tmp_path: Path, selection: dict[str, Any], what: str, detail: str
) -> None:
    with pytest.raises(InputError) as caught:
        resolved(tmp_path, DATA, **selection)
    assert what in str(caught.value)
    assert detail in str(caught.value)
    assert "models/org/model.yaml" in str(caught.value)


def test_a_feature_marked_unsupported_on_the_hardware_is_refused_when_asked_for(
    tmp_path: Path,
) -> None:
    with pytest.raises(InputError) as caught:
        resolved(tmp_path, DATA, "h100", features=["encoder_parallel"])
    assert "unsupported on h100" in str(caught.value)
