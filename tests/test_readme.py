"""What the README says of names and defaults is what the models say."""

from __future__ import annotations

import json
import re
from typing import Any

from orchestrator.cli.status import document
from orchestrator.health.endpoint import EndpointCheck, Target
from orchestrator.health.look import Look
from orchestrator.health.metrics import Load
from orchestrator.health.observation import Observation
from orchestrator.health.status import deployment_statuses
from orchestrator.runtime.containers import ContainerState
from orchestrator.runtime.gpu_use import GpuUse
from tests.readme_tables import MARKED, README, TABLES, written


def test_the_tables_are_those_of_the_models() -> None:
    text = README.read_text()
    assert [found[2] for found in MARKED.finditer(text)] == list(TABLES)
    assert written(text) == text, "run python -m tests.readme_tables"


def test_every_variable_and_every_field_is_in_them() -> None:
    assert "| `orc_gpus` |" in TABLES["orc_variables"]
    assert "| `health.timeout` | `2700.0` |" in TABLES["deployment"]
    assert "| `router.port` | `30000` |" in TABLES["deployment"]


def shape(value: Any) -> Any:
    """The names in a document, without its values; of a list the first item, by host nothing."""
    if isinstance(value, dict):
        by_host = all(isinstance(inner, str) for inner in value.values())
        return None if by_host else {name: shape(inner) for name, inner in value.items()}
    return [shape(inner) for inner in value[:1]] if isinstance(value, list) else None


def test_the_sample_of_status_has_the_fields_that_status_prints() -> None:
    found = re.search(r"<!-- sample: status -->\n```json\n(.*?)```", README.read_text(), re.DOTALL)
    assert found is not None
    url = "http://10.1.0.11:8000"
    labels = {"orc.deployment": "kimi", "orc.nodes": "1", "orc.endpoint": url, "orc.model": "m"}
    state = ContainerState("node01", "1", "orc-kimi-r0-n0", "running", {**labels, "orc.gpus": "0"})
    checks = {Target(0, "node01", url, "m"): EndpointCheck("healthy")}
    gpus = {"node01": (GpuUse(0, 1, 2, 3),)}
    statuses = deployment_statuses([state], checks, {}, {url: Load(1, 0, 0.5)}, gpus)
    assert shape(json.loads(found[1])) == shape(document(Look(Observation(), statuses), None))
