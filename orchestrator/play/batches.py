"""Which replicas, or hosts, are worked on at the same time: `serial`, as numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.errors import InputError


@dataclass(frozen=True, slots=True)
class Unit:
    """What fails as one: the hosts of a replica, or one host (`replica` None) that is in none."""

    replica: int | None
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Batch:
    """The units that are worked on together, and their hosts in the play's order.

    `replicas` None: the play is not done in batches, so that services count, too.
    """

    units: tuple[Unit, ...]
    hosts: tuple[str, ...]
    replicas: frozenset[int] | None = None


def units_of(hosts: Sequence[str], replicas: Mapping[int, Sequence[str]]) -> list[Unit]:
    """`hosts` as units, replicas first. A host of no replica is a unit by itself."""
    order = {host: position for position, host in enumerate(hosts)}
    units = []
    for number, own in sorted(replicas.items()):
        here = sorted((host for host in own if host in order), key=order.__getitem__)
        if here:
            units.append(Unit(number, tuple(here)))
    taken = {host for unit in units for host in unit.hosts}
    return [*units, *(Unit(None, (host,)) for host in hosts if host not in taken)]


def split(units: Sequence[Unit], serial: Sequence[int | str], where: str) -> list[tuple[Unit, ...]]:
    """`units` in batches of the sizes `serial`, the last of which repeats.

    A percentage is of all units, rounded down, and one at least; 0 or less means all that are
    left. So Ansible counts hosts. Raises InputError for what is no number.
    """
    left, batches, position = list(units), [], 0
    while left:
        size = _size(serial[min(position, len(serial) - 1)], len(units), where)
        size = size if size > 0 else len(left)
        batches.append(tuple(left[:size]))
        left, position = left[size:], position + 1
    return batches


def _size(written: int | str, total: int, where: str) -> int:
    text = str(written).strip()
    try:
        if text.endswith("%"):
            return int(float(text[:-1]) / 100 * total) or 1
        return int(text)
    except ValueError:
        raise InputError(
            f"serial: {written!r} is no number and no percentage such as 30%", where=where
        ) from None
