"""What `orc logs` writes before and instead of a container's own words."""

from __future__ import annotations

import pytest

from orchestrator.cli.log_printer import LogPrinter
from orchestrator.planning.service import KV_STORE_GROUP, ROUTER_GROUP
from orchestrator.runtime.containers import ContainerState
from orchestrator.runtime.log_lines import LogLine


def shown(capsys: pytest.CaptureFixture[str], replica: int, text: str, as_json: bool) -> str:
    labels = {"orc.deployment": "chat", "orc.replica": str(replica), "orc.rank": "0"}
    state = ContainerState("node01", "id0", "orc-chat", "running", labels)
    printer = LogPrinter([state], timestamps=False, as_json=as_json, several=False)
    printer(state, LogLine("2026-01-01T00:00:00.000000000Z", state.name, text))
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("replica", "label"), [(1, "r1"), (ROUTER_GROUP, "router"), (KV_STORE_GROUP, "KV store")]
)
def test_a_line_names_its_replica_or_its_service(
    capsys: pytest.CaptureFixture[str], replica: int, label: str
) -> None:
    assert shown(capsys, replica, "hello", as_json=False) == f"node01 {label} n0 | hello\n"


@pytest.mark.parametrize("as_json", [True, False])
def test_colours_of_a_container_do_not_go_into_a_pipe(
    capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    out = shown(capsys, 0, "\x1b[32m INFO\x1b[0m ready", as_json)
    assert " INFO ready" in out and "\x1b" not in out and "u001b" not in out
