"""An endpoint's load from its metrics."""

from __future__ import annotations

from orchestrator.health.metrics import Load, load, parse_metrics

# Of vLLM 0.32.0 with two engines, shortened.
TEXT = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="/models/tiny-llama"} 3.0
vllm:num_requests_running{engine="1",model_name="/models/tiny-llama"} 2.0
vllm:num_requests_waiting{engine="0",model_name="/models/tiny-llama"} 1.0
vllm:num_requests_waiting{engine="1",model_name="/models/tiny-llama"} 0.0
vllm:kv_cache_usage_perc{engine="0",model_name="/models/tiny-llama"} 0.5
vllm:kv_cache_usage_perc{engine="1",model_name="/models/tiny-llama"} 0.25
vllm:prompt_tokens_total{engine="0",model_name="/models/tiny-llama"} 100.0
vllm:generation_tokens_total{engine="0",model_name="/models/tiny-llama"} 40.0
vllm:generation_tokens_total{engine="1",model_name="/models/tiny-llama"} 1.5e+02
vllm:generation_tokens_created{engine="0",model_name="/models/tiny-llama"} 1.7e+09
python_info{implementation="CPython"} 1.0
"""


def test_the_engines_behind_an_endpoint_are_taken_together() -> None:
    metrics = parse_metrics(TEXT, 10.0)
    assert metrics is not None
    assert (metrics.running, metrics.waiting, metrics.kv_cache) == (5, 1, 0.375)
    assert (metrics.prompt_tokens, metrics.generation_tokens) == (100, 190)


def test_rates_are_those_between_two_looks() -> None:
    before, now = parse_metrics(TEXT, 10.0), parse_metrics(TEXT.replace("1.5e+02", "250"), 12.0)
    assert now is not None
    assert load(before, now) == Load(5, 1, 0.375, 0.0, 50.0, 2.0)


def test_there_is_no_rate_without_two_looks_or_over_a_restart() -> None:
    before, now = parse_metrics(TEXT, 10.0), parse_metrics(TEXT.replace("40.0", "1.0"), 12.0)
    assert now is not None
    assert load(None, now) == load(before, now) == Load(5, 1, 0.375)


def test_metrics_of_something_else_are_none() -> None:
    assert parse_metrics("python_info{} 1.0\n", 1.0) is None
    assert parse_metrics("<html>", 1.0) is None
