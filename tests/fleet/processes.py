"""Which process is meant: a pid alone is reused, so its start time and command go with it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True)
class Process:
    """A process as the root namespace sees it."""

    pid: int
    started: int
    """Clock ticks since boot."""
    command: tuple[str, ...]

    @property
    def alive(self) -> bool:
        """Whether it still runs. Its command may have changed since: vLLM's workers do that."""
        now = find(self.pid)
        return now is not None and now.started == self.started

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Signal exactly this process; one that has ended, or whose pid is another's, is left."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            # The descriptor holds the pid: what is compared now is what gets the signal.
            if self.alive:
                signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            pass
        finally:
            os.close(descriptor)


def find(pid: int) -> Process | None:
    """The process with this pid, or None if there is none (a zombie is none)."""
    try:
        stat = (PROC / str(pid) / "stat").read_text()
        command = (PROC / str(pid) / "cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name is in parentheses and may hold any character, so count from the last one.
    state, *fields = stat[stat.rindex(")") + 2 :].split()
    if state in "ZX":
        return None
    words = command.rstrip(b"\0").decode(errors="replace").split("\0")
    return Process(pid, int(fields[18]), tuple(words))


def all_processes() -> Iterator[Process]:
    for entry in PROC.iterdir():
        if entry.name.isdigit() and (process := find(int(entry.name))):
            yield process


def in_network_namespace(inode: int) -> Iterator[Process]:
    """The processes whose network namespace is this one."""
    for process in all_processes():
        if network_namespace(process.pid) == inode:
            yield process


def network_namespace(pid: int) -> int | None:
    try:
        return (PROC / str(pid) / "ns" / "net").stat().st_ino
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None


def in_cgroups(parent: str) -> list[Process]:
    """The processes in a cgroup and below it, in whichever hierarchies there are.

    With cgroup v1 every controller has a hierarchy of its own below /sys/fs/cgroup.
    """
    pids: set[int] = set()
    for directory in cgroup_directories(parent):
        for members in directory.rglob("cgroup.procs"):
            try:
                pids.update(int(line) for line in members.read_text().split())
            except OSError:  # gone, or a threaded one
                continue
    return [process for pid in sorted(pids) if (process := find(pid))]


def cgroup_directories(parent: str) -> list[Path]:
    root = Path("/sys/fs/cgroup")
    return [*root.glob(parent), *root.glob(f"*/{parent}")]
