"""The model's shape is read where the model lies: on the hosts, which alone have it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.conftest import Orc
from tests.fleet import Fleet

pytestmark = pytest.mark.fleet

RECIPE = """
meta: {title: "On the node", tasks: [text]}
model: {model_id: /models/on-node, architecture: dense, parameter_count: 8B}
variants: {default: {precision: bf16, vram_minimum_gb: 40}}
compatible_strategies: [single_node_tp, multi_node_tp]
"""
CONFIG = {"num_hidden_layers": 4, "num_attention_heads": 6, "num_key_value_heads": 2}


@pytest.fixture
def selection(fleet: Fleet, tmp_path: Path) -> tuple[str, ...]:
    """A recipe without a shape, and hosts that mount /srv/models, which is private to each."""
    recipe = tmp_path / "recipes" / "models" / "test" / "on-node.yaml"
    recipe.parent.mkdir(parents=True)
    recipe.write_text(RECIPE)
    more = tmp_path / "more.yml"
    more.write_text(
        "all:\n  vars: {orc_gpus: [0, 1, 2, 3], orc_volumes: [/srv/models:/models:ro]}\n"
    )
    place = ("-i", str(fleet.inventory), "-i", str(more), "--recipes", str(tmp_path / "recipes"))
    return (*place, "--recipe", "test/on-node", "--image", fleet.fast_image, "--name", "shape")


def lay(fleet: Fleet, host: str, **changes: int) -> None:
    place = "/srv/models/on-node"
    text = json.dumps(CONFIG | changes)
    fleet.host(host).run(["sh", "-c", f"mkdir -p {place} && echo '{text}' > {place}/config.json"])


def test_what_the_hosts_model_cannot_be_split_into_is_refused_before_the_start(
    fleet: Fleet, orc: Orc, selection: tuple[str, ...]
) -> None:
    for host in ("node01", "node02"):
        lay(fleet, host)
    wish = (*selection, "--strategy", "single_node_tp", "--set", "parallel.tensor=4")
    assert orc("plan", *wish).status == 0  # nobody asked the hosts
    for words in (("plan", "--gather-facts"), ("up",)):
        refused = orc(*words, *wish)
        assert refused.status != 0
        assert "6 attention heads of /models/on-node do not divide over tensor" in refused.text
    assert orc("plan", "--gather-facts", *wish, "--set", "parallel.tensor=2").status == 0


def test_hosts_with_different_models_are_not_joined(
    fleet: Fleet, orc: Orc, selection: tuple[str, ...]
) -> None:
    lay(fleet, "node01")
    lay(fleet, "node02", num_hidden_layers=8)
    wish = (*selection, "--strategy", "multi_node_tp", "--nodes", "2", "--set", "parallel.tensor=2")
    refused = orc("up", *wish)
    assert refused.status != 0
    assert "another model on node02 than on node01: layers 4 on node01, 8 on node02" in refused.text
