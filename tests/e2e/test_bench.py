"""`orc bench` with real vLLM: from the head, from another host, kept, listed, compared."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.conftest import TINY, Orc, vllm_processes
from tests.e2e.deployed import START_SECONDS
from tests.fleet import Fleet

pytestmark = [pytest.mark.fleet, pytest.mark.vllm, pytest.mark.timeout(900)]

FEW = ("--", "--num-prompts", "4", "--random-output-len", "8")
KEY = "sk-key-of-the-benchmark"


@pytest.fixture(scope="module")
def bench(fleet: Fleet, orc: Orc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Orc]:
    """orc beside one real vLLM that wants an API key, with a state directory of its own."""
    place = tmp_path_factory.mktemp("state")
    own = replace(orc, variables={"XDG_STATE_HOME": str(place), "VLLM_API_KEY": KEY})
    words = (*TINY, "--strategy", "single_node_tp", "--name", "real", "--image", fleet.image)
    up = own("up", *words, "--set", f"env.VLLM_API_KEY={KEY}", timeout=START_SECONDS)
    assert up.status == 0, up.text
    yield own
    fleet.clear()


def test_a_benchmark_is_run_kept_listed_and_compared(fleet: Fleet, bench: Orc) -> None:
    would = bench("bench", "--check")
    assert would.status == 0 and "--random-input-len 128" in would.out
    first = bench("bench", "real", *FEW, VLLM_API_KEY="")
    assert first.status == 0, first.text
    assert "real/1: spec " in first.out and "Successful requests              4" in first.out
    second = bench("bench", "--from", "node02", "--json", *FEW)
    assert second.status == 0, second.text
    run = second.json()
    assert (run["id"], run["host"], run["result"]["completed"]) == ("real/2", "node02", 4)
    assert run["result"]["total_output_tokens"] == 32
    assert KEY not in first.text + second.text
    kept = Path(bench.variables["XDG_STATE_HOME"]) / "orc" / "bench" / "real" / "2.json"
    assert json.loads(kept.read_text()) == run
    assert kept.stat().st_mode & 0o777 == 0o600

    listed = bench("bench", "--list", ORC_INVENTORY="")
    assert [line.split()[0] for line in listed.out.splitlines()] == ["ID", "real/1", "real/2"]
    compared = bench("bench", "--compare", "real/1", "real/2", ORC_INVENTORY="")
    lines = compared.out.splitlines()
    assert [cell.strip() for cell in lines[0].strip("|").split("|")] == [
        "Metric", "real/1", "real/2", "Change", "Improvement",
    ]  # fmt: skip
    assert any(line.startswith("| Mean TTFT (s)") for line in lines)
    containers = [c.name for host in fleet.hosts for c in fleet.containers(host)]
    assert containers == ["orc-real-r0-n0"], "the client's container is gone"


def test_a_benchmark_that_fails_keeps_nothing(bench: Orc) -> None:
    before = bench("bench", "--list", "--json").json()
    failed = bench("bench", "real", "--", "--no-such-flag")
    assert failed.status == 2
    assert "--no-such-flag" in failed.err and "ended with status 2" in failed.err
    assert bench("bench", "--list", "--json").json() == before


def test_ctrl_c_ends_it_inside_the_container_too(fleet: Fleet, bench: Orc) -> None:
    process = bench.start("bench", "real", "--", "--num-prompts", "100000")
    deadline = time.monotonic() + 60
    while not any("bench serve" in line for line in vllm_processes(fleet)):
        assert time.monotonic() < deadline, bench.output()
        time.sleep(0.5)
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    deadline = time.monotonic() + 15
    while any("bench" in line for line in vllm_processes(fleet)):
        assert time.monotonic() < deadline, vllm_processes(fleet)
        time.sleep(0.5)
    assert bench("status", "real").status == 0
