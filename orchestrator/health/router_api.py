"""What vllm-router (0.1.17) is told while it runs: which workers it sends requests to.

In its prefill/decode mode a worker can be taken out, but not put back (400, "PD router requires
specific add_prefill_server or add_decode_server methods"), so there nothing is taken out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx

from orchestrator.errors import DeploymentError
from orchestrator.health import http
from orchestrator.planning.router import PREFILL_DECODE
from orchestrator.runtime.containers import ContainerState
from orchestrator.transport.connection import Connection

_TIMEOUT = 10.0
_ADD_TIMEOUT = 60.0  # adding a worker blocks until it answers


def can_put_back(router: ContainerState) -> bool:
    """Whether a worker that was taken out can be put back."""
    return PREFILL_DECODE not in router.command


def workers(connection: Connection, url: str) -> Mapping[str, bool]:
    """The URLs of the router's workers, and whether it holds them for healthy."""
    data = _ask(connection, "GET", f"{url}/workers").json()
    return {_bare(worker["url"]): bool(worker["is_healthy"]) for worker in data["workers"]}


def serving(connection: Connection, url: str) -> set[str]:
    """The URLs of the workers that the router holds for healthy, and so sends requests to."""
    return {worker for worker, healthy in workers(connection, url).items() if healthy}


def remove_worker(connection: Connection, url: str, worker: str) -> None:
    """No new request goes to the worker from now on; those it has are ended."""
    _ask(connection, "POST", f"{url}/remove_worker", worker)


def add_worker(connection: Connection, url: str, worker: str) -> None:
    """Requests go to the worker again. One that is there already is left as it is."""
    _ask(connection, "POST", f"{url}/add_worker", worker, timeout=_ADD_TIMEOUT)


def _ask(
    connection: Connection,
    method: str,
    url: str,
    worker: str | None = None,
    timeout: float = _TIMEOUT,
) -> httpx.Response:
    parameters: dict[str, Any] = {"url": worker} if worker else {}
    path = url.rpartition("/")[2]
    try:
        with http.client(connection, timeout=timeout) as client:
            answer = client.request(method, url, params=parameters)
    except httpx.HTTPError as error:
        raise DeploymentError(
            f"the router gives no answer to /{path}{f' {worker}' if worker else ''}: {error}",
            where=connection.host,
            hint="orc status; orc logs",
        ) from None
    if answer.status_code >= 400 and "already exists" not in answer.text:
        said = " ".join(answer.text.split())[:200]
        text = f"the router answers /{path} with {answer.status_code}: {said}"
        raise DeploymentError(text, where=connection.host)
    return answer


def _bare(url: str) -> str:
    """A worker's URL without the data-parallel rank that the router puts behind it."""
    return url.partition("@")[0]
