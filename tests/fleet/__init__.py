"""Hosts for tests on one machine: namespaces with their own sshd, dockerd and addresses."""

from tests.fleet.fleet import Fleet
from tests.fleet.host import Host

__all__ = ["Fleet", "Host"]
