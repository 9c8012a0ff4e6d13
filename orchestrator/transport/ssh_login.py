"""Logging in: which keys and passwords are tried, in which order, and what is said on refusal."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.errors import UnreachableError
from orchestrator.transport.ssh_config import SshTarget
from orchestrator.transport.ssh_keys import KeyRing, UnusableKey, agent_keys, public_blob

if TYPE_CHECKING:
    import paramiko

_TIMEOUT = 30.0  # seconds for one answer; PAM may take its time


class LoginDropped(Exception):
    """The server closed the connection before it refused anything: worth another attempt."""


def log_in(
    transport: paramiko.Transport, target: SshTarget, ring: KeyRing, *, passwords: bool
) -> None:
    """Authenticate. Raises UnreachableError when everything was refused, LoginDropped."""
    transport.auth_timeout = _TIMEOUT
    _Login(transport, target, ring, passwords).run()


class _Login:
    def __init__(
        self, transport: paramiko.Transport, target: SshTarget, ring: KeyRing, passwords: bool
    ) -> None:
        self._transport = transport
        self._target = target
        self._ring = ring
        self._password = target.password if passwords else None
        self._tried: list[str] = []
        self._notes: list[str] = []
        if target.password and not passwords:
            self._notes.append("password not sent: the host's key is not the one on record")
        self._rejections = 0

    def run(self) -> None:
        # A password that was given is meant to be used; keys that merely lie around only use
        # up the server's MaxAuthTries.
        steps = [self._keys, self._passwords]
        if self._password and not self._target.chosen_keys:
            steps.reverse()
        done = any(step() for step in steps)
        if not done:
            raise self._refused()

    def _allowed(self, method: str) -> bool:
        return method in self._target.methods and self._transport.is_active()

    def _keys(self) -> bool:
        if "publickey" not in self._target.methods:
            return False
        with agent_keys(self._target.identity_agent) as (agent, said):
            self._notes.append(f"{said} with {len(agent)} keys" if agent else said)
            for label, key in self._candidates(agent):
                if not self._allowed("publickey"):
                    break
                attempt = functools.partial(self._transport.auth_publickey, self._target.user, key)
                if self._attempt(label, attempt):
                    return True
        return False

    def _candidates(self, agent: list[paramiko.PKey]) -> Iterator[tuple[str, paramiko.PKey]]:
        """Named keys first, then what else the agent has; what must be asked for comes last."""
        offered: set[bytes] = set()
        in_agent = {key.asbytes(): key for key in agent}
        locked = []
        for path in self._target.identity_files:
            blob, key = self._identity(path)
            if blob in offered:
                continue
            if blob in in_agent and blob is not None:
                offered.add(blob)
                yield f"agent key {path}", in_agent[blob]
            elif key:
                offered.add(key.asbytes())
                yield f"key {path}", key
            elif path.is_file():
                locked.append(path)
        if not self._target.identities_only:
            for blob, key in in_agent.items():
                if blob not in offered:
                    yield f"agent key {getattr(key, 'comment', '') or key.get_name()}", key
        for path in locked:
            key = self._unlocked(path)
            if key:
                yield f"key {path}", key

    def _identity(self, path: Path) -> tuple[bytes | None, paramiko.PKey | None]:
        """(Public half, key) of an IdentityFile, as far as they can be had without asking."""
        try:
            key = self._ring.load(path).key
        except FileNotFoundError:
            return public_blob(path), None  # the private half may be in the agent
        except UnusableKey as error:
            self._note_unused(path, str(error))
            return None, None
        return (key.asbytes() if key else public_blob(path)), key

    def _unlocked(self, path: Path) -> paramiko.PKey | None:
        if any(note.startswith(f"key {path} not used") for note in self._notes):
            return None
        if self._target.batch:
            self._note_unused(path, "it needs a passphrase, and BatchMode forbids to ask")
            return None
        try:
            return self._ring.unlock(path)
        except UnusableKey as error:
            self._note_unused(path, str(error))
            return None

    def _note_unused(self, path: Path, why: str) -> None:
        self._notes.append(f"key {path} not used: {why}")

    def _passwords(self) -> bool:
        if self._password is None:
            return False
        secret, user = self._password, self._target.user
        if self._allowed("password") and self._attempt(
            "password",
            lambda: self._transport.auth_password(user, secret.reveal(), fallback=False),
        ):
            return True

        def answer(_title: str, _text: str, prompts: list[tuple[str, bool]]) -> list[str]:
            return [secret.reveal() for _ in prompts]

        # Offered only where the server takes no plain passwords: the same password twice is
        # two failures in its log.
        return (
            "password" not in self._tried
            and self._allowed("keyboard-interactive")
            and self._attempt(
                "password (keyboard-interactive)",
                lambda: self._transport.auth_interactive(user, answer),
            )
        )

    def _attempt(self, label: str, attempt: Callable[[], list[str]]) -> bool:
        import paramiko

        try:
            missing = attempt()
        except paramiko.BadAuthenticationType as error:
            if "partial" not in str(error).lower():
                self._notes.append(f"the server takes {', '.join(error.allowed_types)}")
            return False
        except paramiko.AuthenticationException:
            if not self._transport.is_active() and not self._rejections:
                raise LoginDropped from None
            self._rejections += 1
            self._tried.append(label)
            return False
        except (paramiko.SSHException, EOFError, OSError) as error:
            if not self._transport.is_active():
                if not self._rejections:
                    raise LoginDropped from None
                self._tried.append(label)
                return False
            self._notes.append(f"{label}: {error}")
            return False
        if missing:  # a first factor; another has to follow
            self._tried.append(f"{label} (accepted; the server also wants {', '.join(missing)})")
            return False
        return True

    def _refused(self) -> UnreachableError:
        target = self._target
        tried = "tried " + ", ".join(self._tried) if self._tried else "there was nothing to try"
        if not self._transport.is_active():
            tried += "; then the server closed the connection (MaxAuthTries?)"
        if not target.password:
            self._notes.append("no password given")
        notes = "; ".join(dict.fromkeys(self._notes))
        key = next(iter(target.chosen_keys or target.identity_files), None)
        copy = f"ssh-copy-id -p {target.port}" + (f" -i {key}" if key else "")
        return UnreachableError(
            f"login as {target.user} refused",
            where=target.place,
            why=f"{tried}; {notes}",
            hint=f"{copy} {target.user}@{target.hostname}, or set ansible_user, "
            "ansible_ssh_private_key_file or ansible_password",
        )
