"""Debian's docker-registry on the fleet's bridge."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import yaml

from tests.fleet.commands import FleetError
from tests.fleet.host import ENVIRONMENT
from tests.fleet.processes import all_processes

PROGRAM = "docker-registry"
PORT = 5000


def start_registry(directory: Path, address: str) -> None:
    """Serve `address`:5000 from a directory; returns once it accepts connections."""
    settings = {
        "version": 0.1,
        "log": {"level": "warn"},
        "storage": {"filesystem": {"rootdirectory": str(directory / "registry-data")}},
        "http": {"addr": f"{address}:{PORT}"},
    }
    _settings(directory).write_text(yaml.safe_dump(settings))
    with (directory / "registry.log").open("a") as log:
        server = subprocess.Popen(
            _command(directory),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=ENVIRONMENT,
            start_new_session=True,
        )
    deadline = time.monotonic() + 20
    while True:
        try:
            socket.create_connection((address, PORT), timeout=1).close()
            break
        except OSError:
            if server.poll() is not None or time.monotonic() > deadline:
                said = (directory / "registry.log").read_text()
                raise FleetError(f"the registry on {address} did not start: {said}") from None
            time.sleep(0.05)


def stop_registry(directory: Path) -> None:
    """Stop the registry that serves this directory: no other has this very command."""
    command = tuple(_command(directory))
    for process in all_processes():
        if process.command == command:
            process.kill()
            _reap(process.pid)


def _reap(pid: int) -> None:
    """Its own maker must wait for it, or it stays as a zombie; another process cannot."""
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)


def _command(directory: Path) -> list[str]:
    return [PROGRAM, "serve", str(_settings(directory))]


def _settings(directory: Path) -> Path:
    return directory / "registry.yml"
