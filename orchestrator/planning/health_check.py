"""What shows that a container is healthy: `orc plan` shows it, and `orc up` waits for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from orchestrator.deployment import Health

KV_STORE_SECONDS = 120.0  # a store service registers its memory before it listens
KV_STORE_INTERVAL = 0.5


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """What one container is asked, each `interval` for at most `timeout` seconds.

    The API at `url` must answer its `path`, list `model`, and with `completion` complete a prompt,
    by each of `data_ranks` where there are any. All of `tcp_ports` must accept a connection. What
    has neither serves nothing: it must not end until the endpoints of its group are healthy.
    """

    timeout: float
    interval: float
    url: str | None = None
    path: str = ""
    model: str = ""
    completion: bool = False
    data_ranks: tuple[int, ...] = ()
    tcp_ports: tuple[int, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The check in `orc plan --json`: all that is asked, in that order."""
        get = [] if self.url is None else [f"{self.url}{self.path}", f"{self.url}/v1/models"]
        return {
            "get": get,
            "post": [f"{self.url}/v1/completions"] if self.url and self.completion else [],
            "model": self.model or None,
            "data_ranks": list(self.data_ranks),
            "tcp_ports": list(self.tcp_ports),
            "timeout": self.timeout,
            "interval": self.interval,
        }


def health_path(role: str) -> str:
    """vllm-router's /health is 503 while any worker is unwell; its own is this (0.1.17)."""
    return "/liveness" if role == "router" else "/health"


def endpoint_check(
    health: Health,
    role: str,
    url: str | None,
    model: str,
    data_ranks: tuple[int, ...] = (),
) -> HealthCheck:
    """The check of a rank or of the router; `url` is None for a rank that serves nothing."""
    if url is None:
        return HealthCheck(health.timeout, health.interval)
    return HealthCheck(
        timeout=health.timeout,
        interval=health.interval,
        url=url,
        path=health_path(role),
        model=model,
        completion=health.completion,
        data_ranks=data_ranks,
    )


def ports_check(tcp_ports: tuple[int, ...]) -> HealthCheck:
    """The check of the KV store's master and of its store services."""
    return HealthCheck(KV_STORE_SECONDS, KV_STORE_INTERVAL, tcp_ports=tcp_ports)
