"""Debian's packages that a fleet is made of, installed without starting what they bring."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.fleet.commands import FleetError, run

# By program, so that a machine with Docker's own packages keeps them.
PROGRAMS = {
    "sshd": "openssh-server",
    "ssh": "openssh-client",
    "dockerd": "docker.io",
    "docker": "docker.io",
    "docker-registry": "docker-registry",
    "tini-static": "tini",  # the first process of every host
    "ip": "iproute2",
    "nsenter": "util-linux",
    "pkill": "procps",
    "curl": "curl",
    "g++": "g++",  # vLLM compiles its graphs unless told --enforce-eager
}
LIBRARIES = (
    "python3-venv",
    "python3-dev",
    "libnuma1",
    "libibverbs1",  # Mooncake's transfer engine is linked against these two
    "librdmacm1",
)

POLICY = Path("/usr/sbin/policy-rc.d")


def why_not() -> str | None:
    """Why no fleet can be made here, or None when one can."""
    if os.geteuid() != 0:
        return "a fleet needs root, for network namespaces and dockerd"
    if not Path("/etc/debian_version").exists() or shutil.which("apt-get") is None:
        return "a fleet is made of Debian's packages, and this is not Debian"
    return None


def install_debian_packages() -> None:
    """Install the packages that are missing; raises FleetError when they cannot be had."""
    missing = [package for program, package in PROGRAMS.items() if not shutil.which(program)]
    missing += [package for package in LIBRARIES if not _installed(package)]
    if not missing:
        return
    if reason := why_not():
        raise FleetError(reason)
    print(f"fleet: installing {' '.join(missing)} ...", flush=True)
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    options = ["--yes", "--no-install-recommends", "--no-remove"]
    install = ["apt-get", "install", *options, *missing]
    with _no_service_starts():
        if run(install, check=False, env=quiet, timeout=900).returncode != 0:
            run(["apt-get", "update"], env=quiet, timeout=300)
            run(install, env=quiet, timeout=900)


def _installed(package: str) -> bool:
    shown = run(["dpkg-query", "--show", "--showformat=${db:Status-Status}", package], check=False)
    return shown.stdout == "installed"


@contextmanager
def _no_service_starts() -> Iterator[None]:
    """A package's services are asked for with invoke-rc.d, and this policy says no to all.

    The fleet runs its own sshd, dockerd and registry; the machine must not get others.
    """
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink()
