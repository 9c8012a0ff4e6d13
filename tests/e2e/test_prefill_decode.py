"""Prefill on one host, decode on another, the KV cache over NIXL, behind a real vllm-router."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import TINY, Orc
from tests.e2e.deployed import START_SECONDS, complete, deployed, nothing_runs
from tests.fleet import Fleet

pytestmark = [
    pytest.mark.usefixtures("kv_transfer"),
    pytest.mark.fleet,
    pytest.mark.vllm,
    pytest.mark.alone,
    pytest.mark.timeout(START_SECONDS, func_only=True),
]

# Prefill keeps a request's blocks for 30 s until decode asks for them: a busy machine needs longer.
PATIENT = ("--set", "args.kv-transfer-config.kv_connector_extra_config.kv_lease_duration=300")
ALONE = "DP rank 0, PP rank 0, PCP rank 0, TP rank 0, ETP rank 0, EP rank N/A"


def test_a_completion_goes_through_both_pools(fleet: Fleet, orc: Orc) -> None:
    selection = (*TINY, "--strategy", "pd_cluster", "--nodes", "2", *PATIENT)
    with deployed(fleet, orc, "pd", *selection) as pd:
        assert pd.roles() == {
            "orc-pd-r0-n0-prefill": "prefill",
            "orc-pd-r0-n0-decode": "decode",
            "orc-pd-router": "router",
        }
        assert pd.rank_lines("node01", "orc-pd-r0-n0-prefill") == [ALONE]
        assert pd.rank_lines("node02", "orc-pd-r0-n0-decode") == [ALONE]
        answer = complete(pd.up.events()[-1]["data"]["router"])
        assert answer.status_code == 200, answer.text
        assert answer.json()["usage"]["completion_tokens"] == 4
        prefill = pd.log("node01", "orc-pd-r0-n0-prefill")
        decode = pd.log("node02", "orc-pd-r0-n0-decode")
        for log in (prefill, decode):
            assert "POST /v1/completions" in log
        assert (
            "NIXL compatibility check passed" in decode
        )  # said when it first reads from the other
        assert pd.status() == {-2: "healthy", 0: "healthy"}
    assert nothing_runs(fleet)
