"""The model's shape by its files on the hosts, where nobody else tells it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Deployment, Inventory, Plan, plan
from orchestrator.errors import PlanError
from orchestrator.facts.host_facts import HostFacts, ModelFiles
from orchestrator.inventory.host import HostSettings
from orchestrator.planning.model_files import model_place, model_places
from tests.golden.case import catalog
from tests.planning.builders import RACK, inventory

LLAMA = {"num_hidden_layers": 10, "num_attention_heads": 12, "num_key_value_heads": 4}
UNKNOWN: dict[str, Any] = {"recipe": "golden/unknown", "features": []}


@pytest.fixture
def rack(tmp_path: Path) -> Inventory:
    return inventory(tmp_path)


def files(weights: int = 0, **config: Any) -> HostFacts:
    return HostFacts(model=ModelFiles("/data/model", json.dumps(LLAMA | config), weights))


def made(rack: Inventory, facts: dict[str, HostFacts], **selection: Any) -> Plan:
    return plan(rack, catalog(), Deployment.model_validate(UNKNOWN | selection), facts)


@pytest.mark.parametrize(
    ("model", "settings", "place"),
    [
        ("/models/tiny", {"volumes": ("/data/models:/models:ro",)}, "/data/models/tiny"),
        ("/models/a/b", {"volumes": ("/data:/models", "/fast:/models/a")}, "/fast/b"),
        ("/models/tiny", {"volumes": ("/models/tiny:/models/tiny",)}, "/models/tiny"),
        ("/models/tiny", {"volumes": ("named:/models", "/data:/mod")}, None),
        ("/models/tiny", {}, None),
        ("org/name", {"hf_home": "/data/hf"}, "/data/hf/hub/models--org--name"),
        (
            "org/name",
            {"volumes": ("/data/hf:/cache",), "env": {"HF_HOME": "/cache"}},
            "/data/hf/hub/models--org--name",
        ),
        (
            "org/name",
            {"volumes": ("/data/hub:/hub",), "env": {"HF_HOME": "/x", "HF_HUB_CACHE": "/hub"}},
            "/data/hub/models--org--name",
        ),
        ("org/name", {}, None),
    ],
)
def test_a_models_directory_on_the_host_is_found_through_what_is_mounted(
    model: str, settings: dict[str, Any], place: str | None
) -> None:
    assert model_place(model, HostSettings(**settings)) == place


def test_every_host_is_asked_by_its_own_mounts(tmp_path: Path) -> None:
    text = RACK.replace("    orc_interface", "    orc_hf_home: /data/hf\n    orc_interface")
    rack = inventory(tmp_path, text.replace("10.1.0.12}", "10.1.0.12, orc_hf_home: /other}"))
    deployment = Deployment.model_validate(UNKNOWN)
    model = catalog().resolve(deployment, "h200").model.replace("/", "--")
    assert model_places(rack, catalog(), deployment) == {
        "node01": f"/data/hf/hub/models--{model}",
        "node02": f"/other/hub/models--{model}",
    }
    assert model_places(rack, catalog(), Deployment(recipe="no/such")) == {}


def test_what_a_host_has_decides_what_the_model_can_be_split_into(rack: Inventory) -> None:
    wish = {"strategy": "single_node_tp", "parallel": {"tensor": 8}}
    assert made(rack, {}, **wish).nodes
    with pytest.raises(PlanError, match=r"12 attention heads of .* 12 % 8 = 4"):
        made(rack, {"node01": files()}, **wish)


def test_layers_and_the_size_of_the_weights_are_taken_from_the_host(rack: Inventory) -> None:
    wish = {"strategy": "multi_node_tp_pp", "nodes": 2, "parallel": {"tensor": 4}}
    facts = {name: files(weights=80 * 10**9) for name in ("node01", "node02")}
    found = made(rack, facts, **wish)
    assert [node.ranks[0].layers for node in found.nodes] == [(0, 2), (5, 8)]
    assert found.layout.memory[0].weights == pytest.approx(80e9 / 2**30 * 2 / 10 / 4)


def test_two_models_under_one_name_are_refused_naming_the_hosts(rack: Inventory) -> None:
    facts = {"node01": files(), "node02": files(num_hidden_layers=12)}
    with pytest.raises(PlanError) as caught:
        made(rack, facts, strategy="multi_node_tp_pp", nodes=2, parallel={"tensor": 4})
    assert "another model on node02 than on node01: layers 10 on node01, 12 on node02" in str(
        caught.value
    )
    facts = {"node01": files(weights=8), "node02": files(weights=4)}
    notes = made(rack, facts, strategy="single_node_tp", replicas=2, parallel={"tensor": 4}).notes
    assert any("differ: weights_gb 8e-09 on node01, 4e-09 on node02" in note for note in notes)


def test_a_host_that_the_plan_leaves_out_may_have_another_model(rack: Inventory) -> None:
    facts = {"node01": files(), "node02": files(num_hidden_layers=12)}
    assert made(rack, facts, strategy="single_node_tp", parallel={"tensor": 4}).nodes


@pytest.mark.parametrize("config", ["", "[]", "{", "null", '{"num_hidden_layers": "many"}'])
def test_a_file_that_says_nothing_changes_nothing(rack: Inventory, config: str) -> None:
    facts = {"node01": HostFacts(model=ModelFiles("/data/model", config))}
    wish = {"strategy": "single_node_tp", "parallel": {"tensor": 8}}
    assert made(rack, facts, **wish).to_dict() == made(rack, {}, **wish).to_dict()
