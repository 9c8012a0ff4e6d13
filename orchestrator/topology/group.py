"""The vLLM processes of one replica, before they are given names, roles and layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from orchestrator.topology.layout import Sizes, Slot


@dataclass(frozen=True, slots=True)
class Member:
    """One container of a group. `first` is the world rank of its first GPU."""

    slot: Slot
    gpus: tuple[int, ...]
    first: int
    flags: tuple[str, ...]
    serves: bool
    ports: Mapping[str, int] = field(default_factory=dict)  # fixed ports other than the API's


@dataclass(frozen=True, slots=True)
class Group:
    """One replica: its sizes and its containers, rank 0 first."""

    sizes: Sizes
    members: tuple[Member, ...]
    notes: tuple[str, ...] = ()
