"""What an endpoint's `/metrics` says of its load: requests, KV cache, tokens per second."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import httpx

from orchestrator.errors import OrcError
from orchestrator.health import http
from orchestrator.health.endpoint import Target
from orchestrator.transport.connection import Connection
from orchestrator.transport.pool import ConnectionPool

_SAMPLE = re.compile(r"^(vllm:\w+)(?:\{[^}]*\})? (\S+)$", re.MULTILINE)
_TIMEOUT = 5.0
APART = 1.0  # seconds between two looks at an endpoint's counters
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


def measure(
    pool: ConnectionPool, targets: Sequence[Target], before: Mapping[Target, Metrics]
) -> tuple[dict[Target, Metrics], dict[Target, Load]]:
    """The latest look at every endpoint that tells, and its load since the look in `before`;
    where there is none, since one a second ago, which is made first."""

    def look(connection: Connection) -> dict[Target, tuple[Metrics, Metrics]]:
        own = [target for target in targets if target.host == connection.host]
        first = {target: before.get(target) or fetch_metrics(connection, target) for target in own}
        if any(target not in before for target in own):
            time.sleep(APART)
        pairs = {t: (old, fetch_metrics(connection, t)) for t, old in first.items() if old}
        return {t: (old, now) for t, (old, now) in pairs.items() if now}

    metrics: dict[Target, Metrics] = {}
    loads: dict[Target, Load] = {}
    for answer in pool.map(dict.fromkeys(target.host for target in targets), look).values():
        if isinstance(answer, OrcError):
            continue  # the look at its health says so
        for target, (old, now) in answer.items():
            metrics[target], loads[target] = now, load(old, now)
    return metrics, loads
