"""What was asked of orc, and how: it stands in locks and in the history."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Request:
    """`command` is the command line without secrets; `lock_timeout` (seconds) how long another's
    lock is waited for; `break_lock` takes the lock whoever holds it."""

    command: str = "orc"
    playbook: str = ""
    lock_timeout: float = 0.0
    break_lock: bool = False
