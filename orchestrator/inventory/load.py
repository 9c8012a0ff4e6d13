"""The inventory: which hosts there are, in which groups, with which variables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from orchestrator.errors import InputError, did_you_mean, nearest
from orchestrator.inventory.group_tree import ALL, Group, GroupTree
from orchestrator.inventory.host import ConnectionSettings, Host, HostSettings
from orchestrator.inventory.layers import Layer, Variable, merge
from orchestrator.inventory.lookups import Lookups
from orchestrator.inventory.patterns import match, read_pattern
from orchestrator.inventory.settings import check_names, connection_settings, host_settings
from orchestrator.inventory.sources import (
    Decrypt,
    read_sources,
    variable_directories,
    variable_layers,
)
from orchestrator.inventory.variables import HostVariables, LazyEnvironment, is_template
from orchestrator.inventory.vault import Vault, read_passwords
from orchestrator.secret import Secret

IMPLICIT_LOCALHOST = ("localhost", "127.0.0.1", "::1")

Paths = Path | str | Iterable[Path | str]


class Inventory:
    """Hosts and groups, as Ansible reads them; immutable.

    A host is put together when it is first asked for, so that a wrong or missing value of a
    host that nobody uses stops nobody.
    """

    def __init__(self, source: _Source, names: Iterable[str]) -> None:
        self._source = source
        self.hosts: Mapping[str, Host] = _Hosts(source, tuple(names))

    @classmethod
    def load(cls, paths: Paths, *, vault_password_files: Iterable[Path | str] = ()) -> Inventory:
        """The inventory in the files and directories `paths`; a later one wins over an earlier.

        Without `vault_password_files` ANSIBLE_VAULT_PASSWORD_FILE names one, as for Ansible.
        Raises InputError, with file and line, for what cannot be read or is no inventory.
        """
        listed = [paths] if isinstance(paths, Path | str) else list(paths)
        if not listed:
            raise InputError("no inventory was given", hint="name a file or directory with -i")
        vault = Vault(read_passwords(Path(file) for file in vault_password_files))
        source = _Source.read([Path(path) for path in listed], vault.decrypt)
        return cls(source, source.tree.hosts_of(ALL))

    @cached_property
    def groups(self) -> Mapping[str, Group]:
        """The groups by name, with only the hosts of this inventory in them."""
        tree, hosts = self._source.tree, self.hosts
        return {
            node.name: Group(
                name=node.name,
                children=tuple(node.children),
                own_hosts=tuple(host for host in node.hosts if host in hosts),
                hosts=tuple(host for host in tree.hosts_of(node.name) if host in hosts),
            )
            for node in tree.groups.values()
        }

    def host(self, name: str) -> Host:
        """The host `name`. Raises InputError, with the nearest name, when there is none."""
        if name not in self.hosts:
            known = list(self.hosts)
            hint = did_you_mean(name, known) if nearest(name, known) or len(known) <= 20 else None
            raise InputError(
                f"there is no host {name!r} in the inventory",
                hint=hint or "`orc inventory --graph` shows what there is",
            )
        return self.hosts[name]

    def select(self, pattern: str) -> tuple[Host, ...]:
        """The hosts of `pattern`, in order. `localhost` is implicit unless the inventory has it.

        Raises InputError for a name that does not exist, and when no host is left.
        """
        if pattern in IMPLICIT_LOCALHOST and pattern not in self._source.all_hosts:
            return (implicit_localhost(pattern),)
        return tuple(self.hosts[name] for name in self._names(pattern))

    def limit(self, pattern: str) -> Inventory:
        """An inventory of only the hosts of `pattern` (or of `@file`), in this one's order.

        Raises InputError as `select` does.
        """
        return self.only(self._names(read_pattern(pattern)))

    def only(self, names: Iterable[str]) -> Inventory:
        """An inventory of only the hosts `names`, in this one's order."""
        kept = set(names)
        return Inventory(self._source, [name for name in self.hosts if name in kept])

    def matching(self, pattern: str) -> list[str]:
        """The names of `pattern`'s hosts, in order; none when a limit has left none of them.

        Raises InputError for a name that does not exist.
        """
        if pattern in IMPLICIT_LOCALHOST and pattern not in self._source.all_hosts:
            return [pattern]
        tree = self._source.tree
        found = match(
            pattern,
            self._source.all_hosts,
            tree.groups,
            lambda group: tuple(tree.hosts_of(group)),
        )
        return [name for name in found if name in self.hosts]

    def _names(self, pattern: str) -> list[str]:
        names = [name for name in self.matching(pattern) if name in self.hosts]
        if not names:
            raise InputError(
                f"no host matches {pattern!r}",
                why=f"of the {len(self.hosts)} hosts in use none is left by it",
                hint="`orc inventory --graph` shows the groups and hosts there are",
            )
        return names

    def same_machine(self) -> list[tuple[str, ...]]:
        """The hosts that are one machine under several names: same address and port."""
        machines: dict[tuple[str, str, int], list[str]] = {}
        for name, host in self.hosts.items():
            at = host.connection
            key = ("local", "", 0) if at.kind == "local" else ("ssh", at.address, at.port or 22)
            machines.setdefault(key, []).append(name)
        return [tuple(names) for names in machines.values() if len(names) > 1]

    def environment(
        self, host: str, values: Mapping[str, str | Secret], place: str
    ) -> dict[str, str | Secret]:
        """`values`, an environment given elsewhere, with its templates resolved for `host`.

        What a lookup gives is a Secret. Raises InputError, which names `place`, for a template
        that cannot be resolved.
        """
        if not any(isinstance(v, str) and is_template(v) for v in values.values()):
            return dict(values)
        layer = Layer(values=values, place=lambda _: place, file=Path.cwd() / place)
        written = {name: Variable(value, layer) for name, value in values.items()}
        return dict(LazyEnvironment(self._source.host_variables(host), written, "env"))

    def as_written(self, host: str) -> dict[str, Any]:
        """The host's variables with templates left alone and secrets redacted."""
        return self._source.host_variables(host).as_written()


def implicit_localhost(name: str = "localhost") -> Host:
    """The control machine, which every inventory has without naming it."""
    return Host(
        name=name,
        connection=ConnectionSettings(kind="local", address=name),
        settings=HostSettings(),
    )


class _Source:
    """What was read, whole: the limited inventories share it."""

    def __init__(
        self,
        paths: Sequence[Path],
        tree: GroupTree,
        group_files: Sequence[Mapping[str, Sequence[Layer]]],
        host_files: Sequence[Mapping[str, Sequence[Layer]]],
        decrypt: Decrypt,
    ) -> None:
        self.paths = paths
        self.tree = tree
        self.all_hosts = tree.host_layers
        self._group_files, self._host_files = group_files, host_files
        self._decrypt = decrypt
        self._lookups = Lookups()
        self._shared: dict[
            tuple[str, ...], tuple[tuple[str, ...], tuple[Layer, ...], dict[str, Variable]]
        ] = {}
        self._variables: dict[str, HostVariables] = {}

    @classmethod
    def read(cls, paths: Sequence[Path], decrypt: Decrypt) -> _Source:
        tree = GroupTree()
        read_sources(paths, tree, decrypt)
        directories = variable_directories(paths)
        group_files = [variable_layers(d, "group_vars", tree.groups, decrypt) for d in directories]
        host_files = [
            variable_layers(d, "host_vars", tree.host_layers, decrypt) for d in directories
        ]
        source = cls(paths, tree, group_files, host_files, decrypt)
        check_names(source._all_layers())
        return source

    def _all_layers(self) -> list[Layer]:
        layers = [layer for group in self.tree.groups.values() for layer in group.layers]
        for own in self.tree.host_layers.values():
            layers += own
        for files in (*self._group_files, *self._host_files):
            for found in files.values():
                layers += found
        return list({id(layer): layer for layer in layers}.values())

    def _group_variables(
        self, host: str
    ) -> tuple[tuple[str, ...], tuple[Layer, ...], dict[str, Variable]]:
        """What the hosts of the same groups share: group names, layers, merged variables."""
        own = tuple(self.tree.host_groups[host])
        if own not in self._shared:
            groups = self.tree.groups_of(own)
            layers = [layer for name in groups for layer in self.tree.groups[name].layers]
            # Ansible takes all directories' group_vars/all before any other group_vars/.
            for files in self._group_files:
                layers += files.get(ALL, ())
            for files in self._group_files:
                for name in groups:
                    layers += files.get(name, ()) if name != ALL else ()
            self._shared[own] = (groups, tuple(layers), merge(layers))
        return self._shared[own]

    def host_variables(self, host: str) -> HostVariables:
        """The variables of `host`. Raises KeyError when there is no such host."""
        if host not in self._variables:
            _, layers, merged = self._group_variables(host)
            own = list(self.tree.host_layers[host])
            for files in self._host_files:
                own += files.get(host, ())
            self._variables[host] = HostVariables(
                host=host,
                written={**merged, **merge(own)} if own else merged,
                layers=(*layers, *own),
                surroundings=self,
                lookups=self._lookups,
                decrypt=self._decrypt,
            )
        return self._variables[host]

    def groups_of(self, host: str) -> tuple[str, ...]:
        return self._group_variables(host)[0]

    def magic(self, host: str) -> Mapping[str, Callable[[], Any]]:
        """The variables that Ansible itself gives to every host."""
        return {
            "inventory_hostname": lambda: host,
            "inventory_hostname_short": lambda: host.split(".", 1)[0],
            "group_names": lambda: sorted(set(self.groups_of(host)) - {ALL}),
            "groups": lambda: {name: list(self.tree.hosts_of(name)) for name in self.tree.groups},
            "inventory_file": lambda: str(self.paths[0].absolute()),
            "inventory_dir": lambda: str(variable_directories(self.paths)[0].absolute()),
        }


class _Hosts(Mapping[str, Host]):
    """Hosts by name in inventory order, each made when it is asked for."""

    def __init__(self, source: _Source, names: tuple[str, ...]) -> None:
        self._source = source
        self._made: dict[str, Host | None] = dict.fromkeys(names)

    def __getitem__(self, name: str) -> Host:
        host = self._made[name]
        if host is None:
            variables = self._source.host_variables(name)
            host = self._made[name] = Host(
                name=name,
                connection=connection_settings(variables),
                settings=host_settings(variables),
                groups=self._source.groups_of(name),
                variables=variables,
            )
        return host

    def __contains__(self, name: object) -> bool:
        return name in self._made

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)
