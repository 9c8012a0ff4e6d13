from pathlib import Path

import pytest

from orchestrator import Inventory
from orchestrator.inventory import listing

EXAMPLES = sorted((Path(__file__).parents[2] / "inventories").glob("*.yml"))


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 3


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_inventory_loads_whole(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_example")
    inventory = Inventory.load(path)
    assert listing.host_records(inventory)
    for host in inventory.hosts.values():
        assert "hf_example" not in str(dict(host.settings.env))
        assert {name: host.variables[name] for name in host.variables}


def test_the_rack_layers_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_example")
    inventory = Inventory.load(EXAMPLES[0].parent / "rack-h200.yml")
    assert len(inventory.hosts) == 16
    assert inventory.hosts["node01"].connection.address == "node01.mgmt.example.net"
    assert inventory.hosts["node16"].settings.env["NCCL_IB_HCA"] == "mlx5_0,mlx5_1"
    assert "HF_TOKEN" in inventory.hosts["node16"].settings.env
