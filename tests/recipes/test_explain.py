from __future__ import annotations

from pathlib import Path

from orchestrator.deployment import Deployment
from orchestrator.recipes.explain import Given, Origin, explain
from orchestrator.secret import Secret
from tests.recipes.making import catalog_with, recipe_data


def origins(directory: Path, data: dict[str, object], **selection: object) -> dict[str, Origin]:
    catalog = catalog_with(directory, data)
    deployment = Deployment.model_validate({"recipe": "org/model", **selection})
    found = explain(catalog.select(deployment, "h200"), deployment)
    assert list(found) == [""]
    return {origin.name: origin for origin in found[""]}


def test_every_argument_says_its_layer_and_what_it_overrode_the_latest_first(
    tmp_path: Path,
) -> None:
    data = recipe_data(
        model={"base_args": ["--x", "1"], "base_env": {"X": "1"}},
        variants={"default": {"extra_args": ["--x", "2"], "extra_env": {"X": "2"}}},
        features={"f": {"args": ["--x", "3"]}},
    )
    found = origins(tmp_path, data)
    assert found["--x"] == Origin(
        "argument",
        "--x",
        Given("--x 3", "feature f"),
        (Given("--x 2", "variant default"), Given("--x 1", "base")),
    )
    assert found["X"] == Origin(
        "variable", "X", Given("2", "variant default"), (Given("1", "base"),)
    )


def test_what_the_user_or_the_strategy_takes_out_is_listed_as_taken_out(tmp_path: Path) -> None:
    data = recipe_data(
        model={"base_args": ["--x", "1", "--enable-expert-parallel", "-tp", "4"]},
        compatible_strategies=["single_node_dpa_tp"],
    )
    found = origins(tmp_path, data, args={"x": None})
    assert found["--x"] == Origin("argument", "--x", None, (Given("--x 1", "base"),), "your args")
    assert found["--enable-expert-parallel"].given is None
    assert found["--enable-expert-parallel"].taken_out_by == "strategy single_node_dpa_tp"
    assert found["--tensor-parallel-size"].kind == "parallel"


def test_the_users_variables_are_theirs_and_a_secret_is_not_shown(tmp_path: Path) -> None:
    data = recipe_data(model={"base_env": {"A": "1"}})
    found = origins(tmp_path, data, env={"A": "2", "T": Secret("hush")})
    assert found["A"] == Origin("variable", "A", Given("2", "your env"), (Given("1", "base"),))
    assert found["T"].given == Given("<secret>", "your env")


def test_variables_for_other_hardware_are_listed_as_taken_out(tmp_path: Path) -> None:
    data = recipe_data(compatible_strategies=["multi_node_tp", "pd_cluster"])
    catalog = catalog_with(tmp_path, data)
    deployment = Deployment(recipe="org/model", strategy="pd_cluster")
    found = explain(catalog.select(deployment, "h200"), deployment)
    assert list(found) == ["prefill", "decode"]
    prefill = {origin.name: origin for origin in found["prefill"]}
    assert prefill["NCCL_MNNVL_ENABLE"].given is None
    assert prefill["NCCL_MNNVL_ENABLE"].taken_out_by == "GB200/GB300 only"
    assert prefill["VLLM_NIXL_SIDE_CHANNEL_PORT"].given == Given(
        "5557", "strategy pd_cluster prefill"
    )
