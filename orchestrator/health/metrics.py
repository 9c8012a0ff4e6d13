"""What an endpoint's `/metrics` says of its load: requests, KV cache, tokens per second."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import httpx

from orchestrator.health import http
from orchestrator.health.endpoint import Target
from orchestrator.transport.connection import Connection

_SAMPLE = re.compile(r"^(vllm:\w+)(?:\{[^}]*\})? (\S+)$", re.MULTILINE)
_TIMEOUT = 5.0
# Of vLLM 0.32.0; several engines behind one endpoint have a sample each.
_RUNNING = "vllm:num_requests_running"
_WAITING = "vllm:num_requests_waiting"
_KV_CACHE = "vllm:kv_cache_usage_perc"
_PROMPT = "vllm:prompt_tokens_total"
_GENERATION = "vllm:generation_tokens_total"


@dataclass(frozen=True, slots=True)
class Metrics:
    """One look at an endpoint: counts over its engines; the cache's use from 0 to 1 is their mean.

    `at` is by this machine's monotonic clock, in seconds.
    """

    at: float
    running: int
    waiting: int
    kv_cache: float | None
    prompt_tokens: float
    generation_tokens: float


@dataclass(frozen=True, slots=True)
class Load:
    """An endpoint's load now. Rates are tokens per second over the last `seconds`, and None
    where there were no two looks, or the counters began anew between them."""

    running: int
    waiting: int
    kv_cache: float | None
    prompt_tokens_per_second: float | None = None
    generation_tokens_per_second: float | None = None
    seconds: float | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def parse_metrics(text: str, at: float) -> Metrics | None:
    """Prometheus' text; None when it is not of vLLM."""
    samples: dict[str, list[float]] = {}
    for name, value in _SAMPLE.findall(text):
        try:
            samples.setdefault(name, []).append(float(value))
        except ValueError:
            continue
    if _RUNNING not in samples:
        return None
    cache = samples.get(_KV_CACHE)
    return Metrics(
        at=at,
        running=round(sum(samples[_RUNNING])),
        waiting=round(sum(samples.get(_WAITING, ()))),
        kv_cache=sum(cache) / len(cache) if cache else None,
        prompt_tokens=sum(samples.get(_PROMPT, ())),
        generation_tokens=sum(samples.get(_GENERATION, ())),
    )


def load(before: Metrics | None, now: Metrics) -> Load:
    """What two looks come to."""
    plain = Load(now.running, now.waiting, now.kv_cache)
    if before is None or now.at <= before.at:
        return plain
    seconds = now.at - before.at
    prompt = (now.prompt_tokens - before.prompt_tokens) / seconds
    generation = (now.generation_tokens - before.generation_tokens) / seconds
    if prompt < 0 or generation < 0:  # it was restarted
        return plain
    return Load(
        now.running,
        now.waiting,
        now.kv_cache,
        round(prompt, 1),
        round(generation, 1),
        round(seconds, 1),
    )


def fetch_metrics(connection: Connection, target: Target) -> Metrics | None:
    """One look from `connection`'s host; None for an endpoint that does not answer it."""
    with http.client(connection, timeout=_TIMEOUT) as client:
        try:
            answer = client.get(f"{target.url}/metrics")
        except httpx.HTTPError:
            return None
        return parse_metrics(answer.text, time.monotonic()) if answer.status_code == 200 else None


def two_looks(
    connection: Connection,
    target: Target,
    before: Mapping[Target, Metrics],
    *,
    apart: float,
) -> tuple[Metrics | None, Load | None]:
    """The latest look at an endpoint, and its load since the one in `before`, or since one that
    is made now and `apart` seconds ago."""
    first = before.get(target)
    if first is None:
        first = fetch_metrics(connection, target)
        if first is None:
            return None, None
        time.sleep(max(0.0, apart - (time.monotonic() - first.at)))
    now = fetch_metrics(connection, target)
    return now, None if now is None else load(first, now)
