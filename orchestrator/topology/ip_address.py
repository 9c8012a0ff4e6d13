"""IP addresses out of text."""

from __future__ import annotations

import ipaddress
from functools import lru_cache


@lru_cache(maxsize=16384)  # every rule about addresses asks anew, for every host
def ip_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address that `text` is; None for a name."""
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
