"""Benchmarks as they are kept and compared, without a host."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from orchestrator.cli.bench_results import BenchRun, compare, comparison_table, run, runs, store
from orchestrator.cli.main import run as orc
from orchestrator.errors import InputError
from orchestrator.runtime.bench import bench_command

# The table of the gain by decode context parallelism in the public recipe of Kimi-K2-Thinking.
TP8 = {"request_throughput": 1.25, "output_throughput": 485.78, "mean_ttft_ms": 271200.0}
DCP8 = {"request_throughput": 1.57, "output_throughput": 695.13, "mean_ttft_ms": 227800.0}


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "orc" / "bench"


def made(result: dict[str, float], deployment: str = "kimi", time: float = 1.0) -> BenchRun:
    return BenchRun(
        *("", deployment, time, "0123456789ab", "vllm", "node01", "http://10.1.0.11:8000"),
        ["vllm", "bench", "serve"],
        result,
    )


def test_runs_are_numbered_by_deployment_and_read_back_as_they_were(state: Path) -> None:
    kept = [store(made(TP8)), store(made(DCP8, time=3.0)), store(made(TP8, "llama", 2.0))]
    assert [one.id for one in kept] == ["kimi/1", "kimi/2", "llama/1"]
    assert run("kimi/2") == kept[1]
    assert [one.id for one in runs()] == ["kimi/1", "llama/1", "kimi/2"]
    assert [one.id for one in runs("kimi")] == ["kimi/1", "kimi/2"]


def test_the_comparison_is_that_of_the_public_recipe() -> None:
    first, second = store(made(TP8)), store(made(DCP8))
    rows = {one.metric: (round(one.change, 2), round(one.improvement or 0, 1))
            for one in compare(first, second)}  # fmt: skip
    assert rows == {
        "Request throughput (req/s)": (0.32, 25.6),
        "Output token throughput (tok/s)": (209.35, 43.1),
        "Mean TTFT (s)": (-43.4, 16.0),
    }
    assert comparison_table(first, second) == [
        "| Metric                          | kimi/1 | kimi/2 | Change  | Improvement |",
        "|---------------------------------|--------|--------|---------|-------------|",
        "| Request throughput (req/s)      | 1.25   | 1.57   | +0.32   | +25.6%      |",
        "| Output token throughput (tok/s) | 485.78 | 695.13 | +209.35 | +43.1%      |",
        "| Mean TTFT (s)                   | 271.20 | 227.80 | -43.40  | +16.0%      |",
    ]


@pytest.mark.parametrize("name", ["kimi/9", "kimi", "", "../x/1", "kimi/../kimi/1"])
def test_a_run_that_is_not_there_is_an_error(name: str) -> None:
    store(made(TP8))
    with pytest.raises(InputError, match="there is no benchmark"):
        run(name)


def test_a_file_that_is_no_result_is_named(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store(made(TP8))
    (state / "kimi" / "2.json").write_text("{}")
    assert orc(["bench", "--list"]) == 1
    assert "2.json: not a result of orc bench" in capsys.readouterr().err


def test_without_an_inventory_only_what_is_kept_can_be_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ORC_INVENTORY", raising=False)
    assert orc(["bench", "--list"]) == 0
    assert "no benchmark is kept here" in capsys.readouterr().err
    assert orc(["bench", "kimi"]) == 3
    assert "needs an inventory" in capsys.readouterr().err


def test_the_command_fits_the_servers_length_and_own_arguments_win() -> None:
    serve = ["vllm", "serve", "org/model", "--max-model-len=512", "--trust-remote-code"]
    words = bench_command([*serve, "--tokenizer", "t"], "http://a:1", "name", ["--seed", "3"])
    assert words[:3] == ["vllm", "bench", "serve"]
    pairs = dict(pairwise(words))
    assert pairs["--base-url"] == "http://a:1"
    assert (pairs["--model"], pairs["--served-model-name"]) == ("org/model", "name")
    assert (pairs["--random-input-len"], pairs["--random-output-len"]) == ("256", "128")
    assert pairs["--tokenizer"] == "t"
    assert words[-3:] == ["--trust-remote-code", "--seed", "3"]
    plain = bench_command(serve[:3], "http://a:1", "name")
    assert dict(pairwise(plain))["--random-input-len"] == "1024"
    own = ["--num-prompts", "2", "--random-input-len=8"]
    mine = bench_command(serve[:3], "http://a:1", "name", own)
    assert mine[-3:] == own and "--max-concurrency" in mine
    assert [word.partition("=")[0] for word in mine].count("--num-prompts") == 1
    assert [word.partition("=")[0] for word in mine].count("--random-input-len") == 1
