"""Private keys: from files, whose passphrase is asked once per run, and from the agent."""

from __future__ import annotations

import contextlib
import getpass
import os
import socket
import stat
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.errors import UnreachableError

if TYPE_CHECKING:
    import paramiko

_MOST_PROMPTS = 3  # ssh's NumberOfPasswordPrompts


class UnusableKey(Exception):
    """A key file that cannot be used; the text says why."""


@dataclass(frozen=True, slots=True)
class KeyFile:
    """A key file: its key, or a passphrase that is missing so far."""

    path: Path
    key: paramiko.PKey | None

    @property
    def encrypted(self) -> bool:
        return self.key is None


class KeyRing:
    """The key files of one run, each read once and asked for once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: dict[Path, KeyFile | UnusableKey] = {}

    def load(self, path: Path) -> KeyFile:
        """Raises UnusableKey, FileNotFoundError."""
        with self._lock:
            if path not in self._files:
                try:
                    self._files[path] = _read(path)
                except UnusableKey as error:
                    self._files[path] = error
            found = self._files[path]
        if isinstance(found, UnusableKey):
            raise found
        return found

    def unlock(self, path: Path) -> paramiko.PKey:
        """The key of an encrypted file. Raises UnusableKey when there is nobody to ask."""
        with self._lock:
            found = self._files.get(path)
            if isinstance(found, UnusableKey):
                raise found
            if found and found.key:
                return found.key
            try:
                key = _ask(path)
            except UnusableKey as error:
                self._files[path] = error
                raise
            self._files[path] = KeyFile(path, key)
            return key


def _read(path: Path) -> KeyFile:
    import paramiko

    mode = path.stat()
    # ssh's own rule: nobody else may read it, if it is ours.
    if mode.st_uid == os.getuid() and stat.S_IMODE(mode.st_mode) & 0o077:
        raise UnusableKey(
            f"its permissions {stat.S_IMODE(mode.st_mode):04o} let others read it: chmod 600 {path}"
        )
    try:
        return KeyFile(path, paramiko.PKey.from_path(path))
    except TypeError:  # cryptography's way to say that a password is needed
        return KeyFile(path, None)
    except OSError as error:
        raise UnusableKey(f"it cannot be read: {error.strerror}") from None
    except Exception as error:
        raise UnusableKey(_reason(error)) from None


def _reason(error: Exception) -> str:
    import paramiko

    if isinstance(error, paramiko.pkey.UnknownKeyType):
        return "a key of a kind that is not supported (Ed25519, ECDSA and RSA are)"
    return "not a private key, or of a kind that is not supported"


def _ask(path: Path) -> paramiko.PKey:
    import paramiko

    try:
        with Path("/dev/tty").open("rb"):
            pass
    except OSError:
        raise UnusableKey(
            f"it needs a passphrase and there is no terminal to ask on: ssh-add {path}"
        ) from None
    for _ in range(_MOST_PROMPTS):
        passphrase = getpass.getpass(f"Passphrase for key {path}: ")
        if not passphrase:
            break
        with contextlib.suppress(ValueError):
            # paramiko's stub says str; cryptography underneath takes bytes only.
            return paramiko.PKey.from_path(path, passphrase.encode())  # type: ignore[arg-type]
    raise UnusableKey("the passphrase was wrong")


@contextlib.contextmanager
def agent_keys(path: str | None) -> Iterator[tuple[list[paramiko.PKey], str]]:
    """(The agent's keys, what to say of the agent), while the agent is needed."""
    if path is None:
        yield [], "no agent"
        return
    from paramiko.agent import AgentSSH

    agent = AgentSSH()
    with socket.socket(socket.AF_UNIX) as connection:
        keys: list[paramiko.PKey] = []
        said = f"agent at {path}"
        try:
            connection.settimeout(30)  # an agent may ask its user to confirm
            connection.connect(path)
            # paramiko itself knows only $SSH_AUTH_SOCK
            agent._connect(connection)  # type: ignore[attr-defined]
            keys = list(agent.get_keys())
        except Exception as error:
            said += f" does not answer ({error})"
        yield keys, said


def public_blob(path: Path) -> bytes | None:
    """The public half from `path`.pub, without the passphrase; None when there is no such file."""
    import paramiko

    with contextlib.suppress(OSError, ValueError, IndexError):
        return paramiko.pkey.PublicBlob.from_file(f"{path}.pub").key_blob
    return None


def require(paths: tuple[Path, ...], place: str) -> None:
    """Raises UnreachableError for a key file that was named for a host and is not there."""
    for path in paths:
        if not path.is_file():
            raise UnreachableError(
                f"there is no key file {path}",
                where=place,
                hint="correct ansible_ssh_private_key_file, or make a key with ssh-keygen",
            )
