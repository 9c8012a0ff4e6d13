"""Addresses in URLs."""

from __future__ import annotations


def url(address: str | None, port: int | None) -> str:
    """An HTTP URL; an IPv6 address goes into brackets, no address is this machine."""
    host = address or "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
