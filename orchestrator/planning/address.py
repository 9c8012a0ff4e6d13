"""Addresses in URLs, and those that a server listens on."""

from __future__ import annotations


def url(address: str | None, port: int | None) -> str:
    """An HTTP URL; an IPv6 address goes into brackets, no address is this machine."""
    host = address or "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def listen_address(address: str | None) -> str:
    """Where a server listens that is met at `address`: `::` takes IPv4 too, `0.0.0.0` no IPv6."""
    return "::" if address and ":" in address else "0.0.0.0"
