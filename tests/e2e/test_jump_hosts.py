"""A host that cannot be reached directly, over two jump hosts, each a real sshd of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator import Inventory
from orchestrator.cli.main import run
from orchestrator.transport.pool import ConnectionPool
from orchestrator.transport.ssh_config import SshOptions
from tests.fleet import Fleet


@pytest.fixture
def inventory(jump_chain: Fleet, tmp_path: Path) -> Path:
    path = tmp_path / "inventory.yml"
    path.write_text(
        "all:\n  vars: {orc_hardware: cpu}\n  hosts:\n    target:\n"
        f"      ansible_ssh_common_args: -F {jump_chain.ssh_config}\n"
    )
    return path


def test_commands_run_on_the_target_and_come_from_the_second_jump_host(
    jump_chain: Fleet, inventory: Path
) -> None:
    """That the target is on no network of the control machine is a test of the fleet's own."""
    hosts = Inventory.load(inventory).hosts.values()
    with ConnectionPool(hosts, SshOptions()) as pool:
        target = pool.connection("target")
        assert target.run(["hostname"]).stdout == "target\n"
        came_from = target.script("echo $SSH_CONNECTION").stdout.split()[0]
        assert target.run(["cat"], stdin="over stdin").stdout == "over stdin"
    assert came_from == jump_chain.host("jump2").addresses[1]


def test_orc_asks_the_target_for_its_facts(
    jump_chain: Fleet, inventory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    selection = ["--recipe", "orc/tiny-llama", "--strategy", "single_node_tp"]
    assert run(["plan", "-i", str(inventory), *selection, "--gather-facts"]) == 0
    assert jump_chain.host("target").addresses[0] in capsys.readouterr().out
