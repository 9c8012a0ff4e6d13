"""Taking a fleet down: by its record where there is one, and by its names in any case."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from tests.fleet import names, network
from tests.fleet.commands import FleetError, run
from tests.fleet.processes import Process, cgroup_directories, in_cgroups, in_network_namespace
from tests.fleet.registry import stop_registry


def remove(fleet: str) -> None:
    """Remove whatever there is of a fleet and nothing else; what is gone already is no error.

    A host ends with its first process: the kernel then kills the rest of it and drops its mounts.
    """
    directory = names.directory(fleet)
    _end_hosts(fleet)
    stop_registry(directory)
    network.remove_network(fleet)
    _remove_cgroups(fleet)
    _unmount_below(directory)
    shutil.rmtree(directory, ignore_errors=True)
    if directory.exists():
        raise FleetError(f"{directory} cannot be removed; remove it, then `down` again")


def remains(fleet: str) -> list[str]:
    """What there still is of a fleet, in words; empty when it is gone."""
    found = [f"process {p.pid}: {' '.join(p.command)}" for p in processes(fleet)]
    found += [f"network namespace {name}" for name in network.namespaces(fleet)]
    found += [f"interface {name}" for name in network.interfaces(fleet)]
    found += [f"cgroup {path}" for path in cgroup_directories(names.cgroup(fleet))]
    found += [f"mount {path}" for path in _mounts_below(names.directory(fleet))]
    found += [str(names.directory(fleet))] if names.directory(fleet).exists() else []
    return found


def processes(fleet: str) -> list[Process]:
    """All that runs on the hosts: in their networks, or in their containers' cgroups."""
    found = set(in_cgroups(names.cgroup(fleet)))
    for namespace in network.namespaces(fleet):
        inode = network.namespace_path(namespace).stat().st_ino
        found.update(in_network_namespace(inode))
    return sorted(found, key=lambda process: process.pid)


def _end_hosts(fleet: str) -> None:
    deadline = time.monotonic() + 30
    while running := processes(fleet):
        for process in running:
            process.kill()
        if time.monotonic() > deadline:
            left = ", ".join(str(process.pid) for process in running)
            raise FleetError(f"fleet {fleet}: processes that do not end: {left}")
        time.sleep(0.05)


def _remove_cgroups(fleet: str) -> None:
    for top in cgroup_directories(names.cgroup(fleet)):
        inner = [path for path in top.rglob("*") if path.is_dir()]
        for path in [*sorted(inner, key=lambda path: -len(path.parts)), top]:
            _remove_cgroup(path)


def _remove_cgroup(path: Path) -> None:
    """A cgroup is busy for a moment after its last process ended."""
    deadline = time.monotonic() + 5
    while True:
        try:
            path.rmdir()
            return
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _mounts_below(directory: Path) -> list[str]:
    lines = Path("/proc/self/mounts").read_text().splitlines()
    targets = [line.split()[1] for line in lines]
    return [target for target in targets if target.startswith(f"{directory}/")]


def _unmount_below(directory: Path) -> None:
    """Nothing is mounted here outside the hosts, but deleting through a mount must not happen."""
    for target in reversed(_mounts_below(directory)):
        run(["umount", "--lazy", target])
