"""The tree of groups: who contains whom, in which order, and how deep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from orchestrator.inventory.layers import Layer

ALL = "all"
UNGROUPED = "ungrouped"


@dataclass(slots=True)
class GroupNode:
    """A group while the inventory is read. The dicts are ordered sets of names."""

    name: str
    children: dict[str, None] = field(default_factory=dict)
    parents: dict[str, None] = field(default_factory=dict)
    hosts: dict[str, None] = field(default_factory=dict)
    layers: list[Layer] = field(default_factory=list)
    priority: int = 1


@dataclass(frozen=True, slots=True)
class Group:
    """A group of the inventory; `hosts` are its own and those of its children, in order."""

    name: str
    children: tuple[str, ...]
    own_hosts: tuple[str, ...]
    hosts: tuple[str, ...]


class GroupTree:
    """All groups and hosts. Sources add to it; `close` settles `all` and `ungrouped`."""

    def __init__(self) -> None:
        self.groups: dict[str, GroupNode] = {}
        self.host_layers: dict[str, list[Layer]] = {}
        self.host_groups: dict[str, dict[str, None]] = {}  # the groups that name the host
        self.add_group(ALL)
        self.add_child(ALL, UNGROUPED)

    def add_group(self, name: str) -> GroupNode:
        return self.groups.setdefault(name, GroupNode(name))

    def add_child(self, parent: str, child: str) -> None:
        """Put the group `child` under `parent`. Raises ValueError when that closes a circle."""
        above, below = self.add_group(parent), self.add_group(child)
        if child == ALL:
            raise ValueError(f"group 'all' is above every group, so not a child of {parent!r}")
        if child == parent or child in self._above(parent):
            raise ValueError(f"group {child!r} cannot be a child of {parent!r}, which is inside it")
        above.children[child] = None
        below.parents[parent] = None

    def add_host(self, name: str, group: str) -> None:
        self.add_group(group).hosts[name] = None
        self.host_groups.setdefault(name, {})[group] = None
        self.host_layers.setdefault(name, [])

    def close(self) -> None:
        """Put what has no parent under `all`, and hosts of no group into `ungrouped`."""
        for group in self.groups.values():
            if group.name != ALL and not group.parents:
                self.add_child(ALL, group.name)
        ungrouped = self.groups[UNGROUPED].hosts
        for host, groups in self.host_groups.items():
            in_a_group = groups.keys() - {ALL, UNGROUPED}
            if in_a_group and UNGROUPED in groups:
                del ungrouped[host], groups[UNGROUPED]
            elif not in_a_group:
                ungrouped[host] = groups[UNGROUPED] = None

    def _above(self, name: str) -> set[str]:
        found: set[str] = set()
        waiting = list(self.groups[name].parents)
        while waiting:
            parent = waiting.pop()
            if parent not in found:
                found.add(parent)
                waiting += self.groups[parent].parents
        return found

    def descendants(self, name: str) -> Iterator[GroupNode]:
        """The group and all below it, level by level: Ansible's order of hosts.

        Ansible leaves the order inside the third and deeper levels to chance; here it is the
        order of the file, so that the same inventory gives the same plan.
        """
        level, seen = [name], {name}
        while level:
            below: list[str] = []
            for group in level:
                yield self.groups[group]
                for child in self.groups[group].children:
                    if child not in seen:
                        seen.add(child)
                        below.append(child)
            level = below

    def hosts_of(self, name: str) -> dict[str, None]:
        """The hosts of a group and of all groups below it, in inventory order."""
        hosts: dict[str, None] = {}
        for group in self.descendants(name):
            hosts.update(group.hosts)
        return hosts

    @cached_property
    def depths(self) -> dict[str, int]:
        """How far each group is below `all`, by the longest way."""
        depths: dict[str, int] = {}

        def depth(name: str) -> int:
            if name not in depths:
                depths[name] = max((depth(p) + 1 for p in self.groups[name].parents), default=0)
            return depths[name]

        for name in self.groups:
            depth(name)
        return depths

    def groups_of(self, own: Iterable[str]) -> tuple[str, ...]:
        """The groups `own` and all above them, in the order in which their variables apply."""
        names = set(own)
        for name in tuple(names):
            names |= self._above(name)
        names.add(ALL)
        return tuple(sorted(names, key=self._rank))

    def _rank(self, name: str) -> tuple[int, int, str]:
        group = self.groups[name]
        return (self.depths[name], group.priority, name)
