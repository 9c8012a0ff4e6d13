"""`orc plan` as a person and as a program calls it: output, statuses, one message per fault."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.cli.main import run
from tests.planning.builders import RACK, make_plan


@pytest.fixture
def rack(tmp_path: Path) -> str:
    path = tmp_path / "rack.yml"
    path.write_text(RACK)
    return str(path)


KIMI = ["--recipe", "moonshotai/Kimi-K2.6", "--strategy", "multi_node_tp_pp"]


def test_the_table_and_both_commands_are_printed(
    rack: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["plan", "-i", rack, *KIMI, "--nodes", "2"]) == 0
    out = capsys.readouterr().out
    assert "node01  0        0     head    0-7   10.1.0.11  0-30" in out
    assert "node02  0        1     worker  0-7   10.1.0.12  31-60" in out
    assert out.count("docker run \\") == 2
    assert "tensor 8, pipeline 2" in out


def test_json_is_one_document_on_stdout_and_nothing_else(
    rack: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["plan", "-i", rack, *KIMI, "--json"]) == 0
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert captured.err == ""
    assert (document["parallel"]["tensor"], document["parallel"]["pipeline"]) == (8, 2)
    assert document["nodes"][1]["command"][0:2] == ["docker", "run"]


def test_json_is_the_plans_own_document_with_the_keys_that_programs_rely_on(
    rack: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["plan", "-i", rack, *KIMI, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document == json.loads(json.dumps(make_plan(tmp_path).to_dict()))
    assert list(document) == [
        *("name", "recipe", "variant", "strategy", "kv_offload", "hardware", "replicas"),
        *("nodes_per_replica", "parallel", "memory", "nodes", "endpoints", "router", "services"),
        *("start_order", "unused", "notes"),
    ]
    assert list(document["nodes"][0]) == [
        *("host", "replica", "rank", "role", "gpus", "address", "interface", "ranks", "name"),
        *("image", "argv", "env", "volumes", "files", "ports", "health", "command", "spec"),
    ]
    assert list(document["nodes"][0]["health"]) == [
        *("get", "post", "model", "data_ranks", "tcp_ports", "timeout", "interval")
    ]


def test_set_reaches_any_field_and_keeps_dashes(
    rack: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sets = ["--set", "args.max-model-len=131072", "--set", "health.timeout=2h"]
    sets += ["--set", "env.NCCL_DEBUG=INFO", "--set", "parallel.tensor=4"]
    assert run(["plan", "-i", rack, *KIMI, *sets, "--json"]) == 0
    node = json.loads(capsys.readouterr().out)["nodes"][0]
    argv = node["argv"]
    assert argv[argv.index("--max-model-len") + 1] == "131072"
    assert argv[argv.index("--pipeline-parallel-size") + 1] == "4"
    assert node["env"]["NCCL_DEBUG"] == "INFO"
    assert node["env"]["VLLM_ENGINE_READY_TIMEOUT_S"] == "7200"


def test_a_deployment_file_is_read_and_flags_override_it(
    rack: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "kimi.yml"
    file.write_text(
        "deployment:\n  name: kimi\n  recipe: moonshotai/Kimi-K2.6\n  strategy: multi_node_tp\n"
    )
    assert run(["plan", "-i", rack, "-d", str(file), "--strategy", "multi_node_tp_pp"]) == 0
    assert "orc-kimi-r0-n1" in capsys.readouterr().out


FAULTS: list[tuple[str, list[str], int, str]] = [
    ("no such inventory", ["plan", "-i", "none.yml", *KIMI], 1, "none.yml: no such inventory"),
    ("no recipe", ["plan", "-i", "RACK"], 1, "no recipe was given"),
    ("unknown recipe", ["plan", "-i", "RACK", "--recipe", "moonshotai/Kimi-K2.5"], 1, "Kimi-K2.6"),
    ("unknown strategy", ["plan", "-i", "RACK", *KIMI, "-s", "multi_node_pp"], 1, "multi_node_"),
    ("unknown host", ["plan", "-i", "RACK", *KIMI, "--limit", "node03"], 1, "node03"),
    ("empty selection", ["plan", "-i", "RACK", *KIMI, "--limit", "node01,!node01"], 1, "host"),
    ("bad --set", ["plan", "-i", "RACK", *KIMI, "--set", "args"], 1, "KEY=VALUE"),
    ("unknown field", ["plan", "-i", "RACK", *KIMI, "--set", "nods=2"], 1, "did you mean 'nodes'"),
    ("wrong type", ["plan", "-i", "RACK", *KIMI, "--set", "nodes=two"], 1, "nodes"),
    ("replicas", ["plan", "-i", "RACK", *KIMI, "--replicas", "many"], 1, "number or max"),
    ("unknown flag", ["plan", "--nonsense"], 3, "--nonsense"),
    ("unknown command", ["plam"], 3, "plam"),
    ("not a number", ["plan", "-i", "RACK", *KIMI, "--nodes", "two"], 3, "--nodes"),
    ("no inventory", ["plan", *KIMI], 3, "--inventory"),
]


@pytest.mark.parametrize(
    ("arguments", "status", "message"), [pytest.param(*f[1:], id=f[0]) for f in FAULTS]
)
def test_every_fault_is_one_message_a_status_and_no_traceback(
    rack: str,
    arguments: list[str],
    status: int,
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run([rack if word == "RACK" else word for word in arguments]) == status
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""


def test_double_verbose_shows_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    run(["plan", "-i", "none.yml", "-vv", *KIMI])
    assert "Traceback" in capsys.readouterr().err


def test_verbose_shows_the_memory_of_a_gpu_of_every_stage(
    rack: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["plan", "-i", rack, *KIMI, "-v"]) == 0
    out = capsys.readouterr().out
    assert "memory of a GPU: stage 0 (node01, 31 layers): weights 35.2 + KV cache 8.7 " in out
    assert "(1 sequence of 262144) + overhead 4.0 = 47.9 of 129.7 GiB usable, 81.8 left" in out
    assert run(["plan", "-i", rack, *KIMI]) == 0
    assert "memory of a GPU" not in capsys.readouterr().out


def test_of_every_container_the_ports_the_health_check_and_the_place_in_the_start_are_shown(
    rack: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ["--set", "kv_offload=kv_store_centralized_mooncake", "--replicas", "2"]
    arguments = ["plan", "-i", rack, "--recipe", KIMI[1], "--strategy", "single_node_tp", *store]
    assert run([*arguments, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert run(arguments) == 0
    out = capsys.readouterr().out
    assert (
        "start order: the KV store, then replicas 0-1, then the router; "
        "each when all before it is healthy\n" in out
    )
    assert "#   ports: mooncake 50051, mooncake_metrics 9003\n" in out
    assert "#   healthy: TCP connects to 50051, 9003; within 2m\n" in out
    assert (
        "#   healthy: GET http://10.1.0.11:8000/health is 200, /v1/models lists "
        "moonshotai/Kimi-K2.6, POST /v1/completions answers; within 45m\n" in out
    )
    assert "GET http://10.1.0.11:30080/liveness is 200" in out
    started = [*document["services"], *document["nodes"], document["router"]]
    order = [name for step in document["start_order"] for name in step]
    assert [node["name"] for node in started] == order
    for node in started:
        assert node["health"]["timeout"] and node["ports"] and node["command"]
    assert "in orc-kimi-k2-6-r0-n0, orc-kimi-k2-6-r1-n0:\n{\n" in out


def test_of_a_rank_that_serves_nothing_is_said_what_makes_it_healthy(
    rack: str, capsys: pytest.CaptureFixture[str]
) -> None:
    health = ["--set", "health.completion=false", "--set", "health.timeout=90s"]
    assert run(["plan", "-i", rack, *KIMI, *health]) == 0
    out = capsys.readouterr().out
    assert "#   healthy: it runs on until its head is healthy\n" in out
    assert "lists moonshotai/Kimi-K2.6; within 90s\n" in out
    assert "start order" not in out  # all at once


def test_suggest_lists_the_strategies_that_fit_as_text_and_as_json(
    rack: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["plan", "-i", rack, "--recipe", KIMI[1], "--suggest"]) == 0
    text = capsys.readouterr().out
    assert "8 of 8 strategies fit" in text
    assert [line.split()[1] for line in text.splitlines() if line.startswith("*  ")] == [
        "single_node_tp"
    ]
    assert run(["plan", "-i", rack, "--recipe", KIMI[1], "--suggest", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)["suggestions"][0]
    assert (first["strategy"], first["recommended"], first["nodes"]) == ("single_node_tp", True, 1)
    assert first["parallel"][""]["tensor"] == 8
