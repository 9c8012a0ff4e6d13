"""Who holds a lock: a person, a machine, a process; and whether that process is gone for sure."""

from __future__ import annotations

import getpass
import json
import os
import platform
import subprocess
import time
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from pathlib import Path

# A machine that was booted anew cannot have sent a sign of life for so long (seconds).
_REBOOT = 60.0


@dataclass(frozen=True, slots=True)
class Holder:
    """One process of `orc`. `since` is seconds since the epoch, by its own machine's clock.

    `ports` are those that its plan has given away, by host: nobody listens on them yet.
    """

    id: str
    user: str = "unknown"
    machine: str = "unknown"
    machine_id: str = ""
    boot: str = ""
    pid: int = 0
    started: str = ""
    command: str = ""
    since: float = 0.0
    ports: Mapping[str, list[int]] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    @property
    def who(self) -> str:
        return f"{self.user}@{self.machine}"

    def __str__(self) -> str:
        return printable(f"{self.who}, pid {self.pid}, since {clock(self.since)}: {self.command}")


def parse_holder(line: str) -> Holder:
    """The holder that `to_json` wrote; an unknown one where the line is not that."""
    try:
        data = json.loads(line)
        known = {one.name: data[one.name] for one in fields(Holder) if one.name in data}
        holder = Holder(**known)
        return holder if isinstance(holder.pid + holder.since, float) else Holder("unknown")
    except (ValueError, TypeError, KeyError):
        return Holder("unknown")


def this_process(command: str) -> Holder:
    """A new holder: this process."""
    pid = os.getpid()
    return Holder(
        id=uuid.uuid4().hex,
        user=user_name(),
        machine=platform.node(),
        machine_id=_machine_id(),
        boot=_boot(),
        pid=pid,
        started=_started(pid) or "",
        command=command,
        since=round(time.time(), 3),
    )


def is_gone(holder: Holder, silent: float) -> bool:
    """Whether the holder was a process of this machine that runs no more, beyond doubt.

    `silent` is the age of its last sign of life in seconds. Of other machines, and of other
    containers of this one, nothing is known.
    """
    if not holder.boot or (holder.machine, holder.machine_id) != (platform.node(), _machine_id()):
        return False
    kernel, _, space = holder.boot.partition(" ")
    this_kernel, _, this_space = _boot().partition(" ")
    if kernel != this_kernel:
        return silent > _REBOOT
    return space == this_space and _started(holder.pid) != holder.started


def user_name() -> str:
    """Who runs orc; under sudo, who called it."""
    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):  # a user without a name (in a container)
        return str(os.getuid())


def clock(moment: float) -> str:
    """A moment (seconds since the epoch) as local time, `2026-05-04 13:37:00`."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment))


def printable(text: str) -> str:
    """Text that others wrote, without what a terminal would obey."""
    return "".join(c if c.isprintable() else "?" for c in text)


@cache
def _machine_id() -> str:
    try:
        return Path("/etc/machine-id").read_text().strip()
    except OSError:
        return f"{uuid.getnode():x}"


@cache
def _boot() -> str:
    """Which run of which kernel, and which of its spaces of process numbers."""
    try:
        kernel = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{kernel} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return (_started(1) or "").replace(" ", "_")  # no Linux


def _started(pid: int) -> str | None:
    """When a process was started, in whatever unit; None when there is none."""
    proc = Path("/proc")
    if (proc / "self").exists():
        try:
            stat = (proc / str(pid) / "stat").read_text()
        except OSError:
            return None
        state, *rest = stat[stat.rindex(")") + 2 :].split()  # the name may hold any character
        return None if state in "ZX" else rest[18]
    said = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True)
    return said.stdout.strip() or None
