"""The record of a fleet: what was made and whose it is, written before anything is made."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tests.fleet import names
from tests.fleet.commands import FleetError
from tests.fleet.network import Link, fleets_by_name, free_subnets
from tests.fleet.processes import Process, find


@dataclass(frozen=True)
class HostRecord:
    name: str
    links: tuple[Link, ...]
    docker: bool
    init: Process | None = None
    """The first process inside the host; nothing on the host outlives it."""


@dataclass(frozen=True)
class Record:
    fleet: str
    owner: Process | None
    """The process that the fleet ends with; None for one that stays up until `down`."""
    subnets: tuple[int, ...]
    hosts: tuple[HostRecord, ...] = ()
    images: tuple[str, ...] = ()

    @property
    def directory(self) -> Path:
        return names.directory(self.fleet)

    def save(self) -> Record:
        """Write the record whole or not at all, and return it."""
        path = self.directory / "record.json"
        beside = path.with_suffix(".new")
        beside.write_text(json.dumps(asdict(self), indent=2) + "\n")
        beside.rename(path)
        return self

    def with_host(self, host: HostRecord) -> Record:
        others = [other for other in self.hosts if other.name != host.name]
        return replace(self, hosts=tuple(sorted([*others, host], key=lambda h: h.name)))


def load(fleet: str) -> Record:
    """Raises FleetError when there is no readable record of this fleet."""
    path = names.directory(fleet) / "record.json"
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise FleetError(f"no fleet {fleet}: {error}") from None
    hosts = tuple(
        HostRecord(
            name=host["name"],
            links=tuple(Link(**link) for link in host["links"]),
            docker=host["docker"],
            init=_process(host["init"]),
        )
        for host in data["hosts"]
    )
    return Record(
        fleet=data["fleet"],
        owner=_process(data["owner"]),
        subnets=tuple(data["subnets"]),
        hosts=hosts,
        images=tuple(data["images"]),
    )


def _process(data: dict[str, Any] | None) -> Process | None:
    return Process(data["pid"], data["started"], tuple(data["command"])) if data else None


def records() -> tuple[list[Record], list[str]]:
    """The fleets with a readable record, and the ids of remains that have none."""
    known: list[Record] = []
    remains = fleets_by_name()
    if names.ROOT.exists():
        remains.update(path.name for path in names.ROOT.iterdir() if path.is_dir())
    for fleet in sorted(remains):
        try:
            known.append(load(fleet))
        except FleetError:
            continue
    return known, sorted(remains - {record.fleet for record in known})


def orphaned(record: Record) -> bool:
    """Whether the process that would take the fleet down has ended without doing it."""
    return record.owner is not None and not record.owner.alive


def reserve(subnets: int) -> tuple[Record, list[str]]:
    """Wait until no other process has a fleet, then record a new one.

    One process may hold several; with `$ORC_FLEET_SEVERAL` several processes may, where all of
    them together fit the machine. Returns the record and the remains that the caller must remove.
    `$ORC_FLEET_WAIT` is how long to wait, in seconds (one hour).
    """
    several = bool(os.environ.get("ORC_FLEET_SEVERAL"))
    me = find(os.getpid())
    patience = float(os.environ.get("ORC_FLEET_WAIT", "3600"))
    deadline = time.monotonic() + patience
    told: str | None = None
    while True:
        with _lock():
            known, remains = records()
            remains += [record.fleet for record in known if orphaned(record)]
            known = [record for record in known if not orphaned(record)]
            others = [record for record in known if record.owner != me]
            if several or not others:
                taken = {subnet for record in known for subnet in record.subnets}
                fleet = names.new_id()
                names.directory(fleet).mkdir(mode=0o700)
                chosen = tuple(free_subnets(subnets, taken))
                return Record(fleet, me, chosen).save(), remains
        message = busy(others[0])
        if time.monotonic() > deadline:
            raise FleetError(f"waited {patience:.0f} s, but {message}")
        if message != told:
            print(f"fleet: waiting, since {message}", flush=True)
            told = message
        time.sleep(1)


def busy(record: Record) -> str:
    if record.owner is None:
        return f"fleet {record.fleet} is up; `python -m tests.fleet down {record.fleet}` ends it"
    command = " ".join(record.owner.command)[:120]
    return f"fleet {record.fleet} belongs to process {record.owner.pid} ({command})"


@contextmanager
def _lock() -> Iterator[None]:
    """Held while deciding, never while a fleet is up: a killed process leaves no lock behind."""
    names.ROOT.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (names.ROOT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
