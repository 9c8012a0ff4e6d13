"""How many requests an endpoint has, by vLLM's own `/metrics`."""

from __future__ import annotations

import re

import httpx

from orchestrator.health import http
from orchestrator.health.endpoint import Target
from orchestrator.transport.connection import Connection

# A gauge for each engine (data-parallel rank) behind the endpoint.
_REQUESTS = re.compile(r"^vllm:num_requests_(?:running|waiting)\{[^}]*\} (\S+)$", re.M)


def requests_in_flight(connection: Connection, target: Target) -> int | None:
    """The requests that run and wait there; None when the endpoint does not say."""
    headers = {"Authorization": f"Bearer {target.api_key.reveal()}"} if target.api_key else {}
    try:
        with http.client(connection, timeout=10.0) as client:
            answer = client.get(f"{target.url}/metrics", headers=headers)
    except httpx.HTTPError:
        return None
    return count_requests(answer.text) if answer.status_code == 200 else None


def count_requests(metrics: str) -> int | None:
    """The sum over all engines of a text in Prometheus' format; None when it has no such gauge."""
    found = _REQUESTS.findall(metrics)
    return round(sum(map(float, found))) if found else None
