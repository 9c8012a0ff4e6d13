"""Whether a machine is the one it was: the check of its host key."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from orchestrator.errors import UnreachableError
from orchestrator.transport import known_hosts
from orchestrator.transport.known_hosts import KnownKey
from orchestrator.transport.ssh_config import SshTarget

if TYPE_CHECKING:
    import paramiko

_ADDING = threading.Lock()


def known_name(target: SshTarget) -> str:
    return target.host_key_name or known_hosts.name_of(target.hostname, target.port)


def known_for(target: SshTarget) -> list[KnownKey]:
    return known_hosts.known_keys(
        (*target.user_known_hosts, *target.global_known_hosts), known_name(target)
    )


def preferred_types(known: list[KnownKey], offered: tuple[str, ...]) -> tuple[str, ...]:
    """Host key algorithms, those first that the host is known by, so that it shows that key."""
    types = {key.type for key in known if not key.marker}
    first = [name for name in offered if _key_type(name) in types]
    return (*first, *(name for name in offered if name not in first))


def check(key: paramiko.PKey, target: SshTarget) -> bool:
    """Raises UnreachableError for a key that must not be trusted; adds it where that is asked.

    Returns whether the host may be shown a password: not if its key has changed and
    StrictHostKeyChecking=no lets that pass (as ssh does).
    """
    blob, key_type = key.asbytes(), key.get_name()
    with _ADDING:
        known = known_for(target)
        verdict, entry = known_hosts.judge(key_type, blob, known)
        if verdict == "known":
            return True
        if verdict == "revoked":
            assert entry
            raise UnreachableError(
                "the host's key is revoked",
                where=target.place,
                why=f"{key_type} {known_hosts.fingerprint(blob)} is @revoked at {entry.place}",
                hint="do not connect; ask who keeps this host for its new key",
            )
        if verdict == "changed":
            assert entry
            if target.host_key_checking == "off":
                return False
            raise _changed(key_type, blob, entry, target)
        if target.host_key_checking == "strict":
            raise _new(key_type, blob, known, target)
        if target.user_known_hosts and str(target.user_known_hosts[0]) != "/dev/null":
            _add(key_type, blob, target)
    return True


def _add(key_type: str, blob: bytes, target: SshTarget) -> None:
    file = target.user_known_hosts[0]
    try:
        known_hosts.add(file, known_name(target), key_type, blob)
    except OSError as error:
        raise UnreachableError(
            f"the host's new key cannot be added to {file}",
            where=target.place,
            why=error.strerror,
            hint="make the file writable, or name another with UserKnownHostsFile",
        ) from None


def _changed(key_type: str, blob: bytes, entry: KnownKey, target: SshTarget) -> UnreachableError:
    return UnreachableError(
        "the host's key has CHANGED: this may be another machine, or somebody in between",
        where=target.place,
        why=f"it shows {key_type} {known_hosts.fingerprint(blob)}, "
        f"but {entry.place} has {entry.type} {entry.fingerprint}",
        hint="only if the host was reinstalled: "
        f"ssh-keygen -R '{known_name(target)}' -f {entry.file}, then --accept-new-host-keys",
    )


def _new(key_type: str, blob: bytes, known: list[KnownKey], target: SshTarget) -> UnreachableError:
    name = known_name(target)
    files = ", ".join(map(str, target.user_known_hosts)) or "any known_hosts file"
    why = f"it shows {key_type} {known_hosts.fingerprint(blob)}, and {name} is not in {files}"
    authority = next((entry for entry in known if entry.marker == "@cert-authority"), None)
    if authority:
        why += (
            f"; the certificate authority at {authority.place} cannot vouch for it here, "
            "since host certificates are not supported"
        )
    return UnreachableError(
        "the host's key is not known yet",
        where=target.place,
        why=why,
        hint="compare it with `ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub` on the host, "
        "then run again with --accept-new-host-keys",
    )


def _key_type(algorithm: str) -> str:
    """The type that known_hosts has for a signature algorithm (RFC 8332)."""
    return "ssh-rsa" if algorithm.startswith("rsa-sha2-") else algorithm
