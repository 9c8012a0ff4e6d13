"""How many tasks ended how on each host, and what that means for the exit status."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from orchestrator.errors import ExitStatus, OrcError


@dataclass
class Recap:
    """Every result counts once: under its status, or as `ignored` or `rescued`.

    So `ok` does not hold what `changed` counts, which it does in Ansible's recap.
    """

    hosts: dict[str, dict[str, int]] = field(default_factory=dict)
    error: OrcError | None = None

    def count(self, host: str, status: str) -> None:
        counts = self.hosts.setdefault(host, {})
        counts[status] = counts.get(status, 0) + 1

    def sort(self, order: Iterable[str]) -> None:
        """Put the hosts in `order`; what is not in it comes after it."""
        counted = [host for host in order if host in self.hosts]
        self.hosts = {host: self.hosts[host] for host in dict.fromkeys([*counted, *self.hosts])}

    def total(self, status: str) -> int:
        return sum(counts.get(status, 0) for counts in self.hosts.values())

    @property
    def exit_status(self) -> ExitStatus:
        """What was rescued or ignored is no failure."""
        if self.error is not None:
            return self.error.exit_status
        if self.total("failed"):
            return ExitStatus.FAILED
        if self.total("unreachable"):
            return ExitStatus.UNREACHABLE
        return ExitStatus.OK
