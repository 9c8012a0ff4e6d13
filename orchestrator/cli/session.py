"""What every command that touches hosts needs: the inventory, connections, and a rendering."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.cli.options import (
    AcceptHostKeysOption,
    ForksOption,
    InventoryOption,
    LimitOption,
    VaultOption,
)
from orchestrator.errors import (
    DeploymentError,
    OrcError,
    UnreachableError,
    UsageError,
    did_you_mean,
)
from orchestrator.secret import Secret

if TYPE_CHECKING:
    from orchestrator.events.rendering import Rendering
    from orchestrator.health.observation import Observation
    from orchestrator.inventory.load import Inventory
    from orchestrator.transport.pool import ConnectionPool


@dataclass(frozen=True, slots=True)
class Reach:
    """Which hosts, and how they are reached: the options that these commands share."""

    inventory: InventoryOption
    limit: LimitOption = None
    vault_password_file: VaultOption = None
    forks: ForksOption = 32
    accept_new_host_keys: AcceptHostKeysOption = False


@dataclass(frozen=True, slots=True)
class Session:
    """An inventory that is limited already, the connections to its hosts, and who is told."""

    inventory: Inventory
    pool: ConnectionPool
    emit: Rendering


def read_inventory(reach: Reach) -> Inventory:
    """The inventory, limited. Raises InputError for a wrong inventory or limit."""
    from orchestrator.inventory.load import Inventory

    inventory = Inventory.load(
        reach.inventory, vault_password_files=reach.vault_password_file or ()
    )
    return inventory.limit(reach.limit) if reach.limit is not None else inventory


@contextmanager
def session(reach: Reach, *, as_json: bool = False) -> Iterator[Session]:
    """Open a session; leaving it hangs up. Raises InputError for a wrong inventory or limit."""
    from orchestrator.events.console import rendering
    from orchestrator.events.undisturbed import Undisturbed
    from orchestrator.transport.pool import ConnectionPool
    from orchestrator.transport.ssh_config import SshOptions

    inventory = read_inventory(reach)
    options = SshOptions(forks=reach.forks, accept_new_host_keys=reach.accept_new_host_keys)
    shown = Undisturbed(rendering(as_json=as_json, stdout=sys.stdout), sys.stdout)
    try:
        with ConnectionPool(inventory.hosts.values(), options) as pool:
            yield Session(inventory, pool, shown)
    finally:
        shown.close()


def known_secrets(inventory: Inventory, hosts: Iterable[str]) -> list[Secret]:
    """Every secret that the inventory has for `hosts`, and the user's own API key: what is never
    shown of what a host says. One that cannot be had here (its variable is not exported) is not
    known."""
    from orchestrator.health.targets import own_key

    found = [key for key in (own_key(),) if key]
    for name in hosts:
        host = inventory.hosts[name]
        at, env = host.connection, host.settings.env
        for secret in (at.password, at.become_password, at.private_key_passphrase):
            if secret is not None:
                with suppress(OrcError):
                    secret.reveal()
                    found.append(secret)
        for key in env:
            with suppress(OrcError):
                if isinstance(value := env[key], Secret):
                    value.reveal()
                    found.append(value)
    return list(dict.fromkeys(found))


def choose(seen: Observation, name: str | None) -> str | None:
    """The deployment that is meant: `name`, or the only one. None when nothing is deployed.

    Raises UsageError when several are there and none was named. A name that is not there is
    returned as it is: where hosts are unknown, it may be on them.
    """
    there = seen.deployments()
    if name is not None:
        return name
    if len(there) > 1:
        raise UsageError(
            f"there are several deployments: {', '.join(there)}", hint="name the one you mean"
        )
    return there[0] if there else None


def not_there(seen: Observation, name: str) -> str:
    """What to say of a deployment of which no container was found."""
    there = seen.deployments()
    more = did_you_mean(name, there) if there else "nothing is deployed"
    return f"no container of {name} was found; {more}"


def nothing_there(seen: Observation, name: str | None = None) -> str:
    """What to say where no container was found: that is known of the hosts that answered only."""
    if seen.unknown and not seen.hosts:
        return "no host answered, so what is deployed is not known"
    text = not_there(seen, name) if name else "nothing is deployed"
    return text + (" on the hosts that answered" if seen.unknown else "")


def none_found(seen: Observation, name: str | None = None, hint: str | None = None) -> OrcError:
    """`nothing_there` as an error that says why hosts are unknown. A host that failed weighs more
    than one that was not reached."""
    unreachable = seen.unreachable and not seen.broken
    kind = UnreachableError if unreachable else DeploymentError
    why = "\n".join(f"{host}: {why}" for host, why in seen.explained.items())
    return kind(nothing_there(seen, name), why=why or None, hint=hint)
