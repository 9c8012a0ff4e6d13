"""Inventories out of text, and plans over the packaged catalog."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from orchestrator import Catalog, Deployment, Inventory, Plan, plan

RACK = """
all:
  vars:
    orc_hardware: h200
    orc_interface: bond0
  hosts:
    node01: {ansible_host: 192.0.2.11, orc_address: 10.1.0.11}
    node02: {ansible_host: 192.0.2.12, orc_address: 10.1.0.12}
"""


def inventory(directory: Path, text: str = RACK) -> Inventory:
    path = directory / "inventory.yml"
    path.write_text(text)
    return Inventory.load(path)


def make_plan(directory: Path, text: str = RACK, facts: Any = None, **selection: Any) -> Plan:
    selection.setdefault("recipe", "moonshotai/Kimi-K2.6")
    selection.setdefault("strategy", "multi_node_tp_pp")
    deployment = Deployment.model_validate(selection)
    return plan(inventory(directory, text), Catalog.load(), deployment, facts)
