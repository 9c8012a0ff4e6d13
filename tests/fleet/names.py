"""What a fleet's things are called. Every name carries the fleet's id, so that each can be found
again without any other record, and so that two fleets never meet."""

from __future__ import annotations

import re
import secrets
from pathlib import Path

ROOT = Path("/var/lib/orc-fleet")
"""Not below /tmp or /run: docker's overlay2 needs a real file system below it."""

NETWORK_NAMESPACE = re.compile(r"^orc-fleet-([0-9a-f]{4})-")
INTERFACE = re.compile(r"^orc-([0-9a-f]{4})-")


def new_id() -> str:
    return secrets.token_hex(2)


def directory(fleet: str) -> Path:
    return ROOT / fleet


def network_namespace(fleet: str, host: str) -> str:
    return f"orc-fleet-{fleet}-{host}"


def bridge(fleet: str, number: int) -> str:
    return f"orc-{fleet}-br{number}"


def cable(fleet: str, host: int, interface: int) -> str:
    """The control machine's end of a host's interface (at most 15 characters, says Linux)."""
    return f"orc-{fleet}-{host}e{interface}"


def cgroup(fleet: str) -> str:
    return f"orc-fleet-{fleet}"
