"""Reads what Ansible Vault encrypted (format 1.1 and 1.2, AES256).

The format is public: a header line, then hexadecimal text of three hexadecimal lines (salt,
HMAC-SHA256, ciphertext); keys by PBKDF2-HMAC-SHA256 with 10,000 rounds: 32 bytes for AES-256-CTR,
32 for the HMAC, 16 for the counter; PKCS#7 padding.
Source: https://docs.ansible.com/ansible/latest/vault_guide/vault_using_encrypted_content.html
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import os
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from orchestrator.documents import expand_user
from orchestrator.errors import InputError
from orchestrator.secret import Secret

PASSWORD_FILE_VARIABLE = "ANSIBLE_VAULT_PASSWORD_FILE"
_HINT = f"give --vault-password-file, or set {PASSWORD_FILE_VARIABLE}"


@dataclass(frozen=True, slots=True)
class Vault:
    """Decrypts with the passwords that the user gave, each of which is tried."""

    passwords: tuple[Secret, ...] = ()
    _known: dict[str, str] = field(default_factory=dict)

    def decrypt(self, text: str, where: str) -> str:
        """What `text` (with its `$ANSIBLE_VAULT` header) says; `where` is its file:line.

        Raises InputError when there is no password, or none of them fits.
        """
        if text not in self._known:
            self._known[text] = self._decrypt(text, where)
        return self._known[text]

    def _decrypt(self, text: str, where: str) -> str:
        salt, tag, ciphertext = _parse(text, where)
        if not self.passwords:
            raise InputError(
                "Ansible Vault encrypted this, and no vault password was given",
                where=where,
                hint=_HINT,
            )
        for password in self.passwords:
            keys = _derive(password.reveal(), salt)
            if hmac.compare_digest(hmac.digest(keys[32:64], ciphertext, "sha256"), tag):
                return _decipher(keys, ciphertext, where)
        raise InputError(
            "the vault password does not fit what Ansible Vault encrypted here",
            where=where,
            hint=_HINT,
        )


def _parse(text: str, where: str) -> tuple[bytes, bytes, bytes]:
    header, _, body = text.strip().partition("\n")
    parts = header.strip().split(";")
    if len(parts) < 3 or parts[0] != "$ANSIBLE_VAULT":
        raise InputError("a vault value begins with $ANSIBLE_VAULT;1.1;AES256", where=where)
    if parts[1] not in ("1.1", "1.2") or parts[2] != "AES256":
        raise InputError(
            f"Ansible Vault's format {parts[1]} with {parts[2]} cannot be read here",
            where=where,
            hint="only 1.1 and 1.2 with AES256 can: encrypt it anew with ansible-vault",
        )
    try:
        inner = binascii.unhexlify("".join(body.split()))
        salt, tag, ciphertext = (binascii.unhexlify(line) for line in inner.split(b"\n"))
    except ValueError:
        raise InputError("the vault value is damaged", where=where) from None
    return salt, tag, ciphertext


@lru_cache(maxsize=1024)
def _derive(password: str, salt: bytes) -> bytes:
    return hashlib.pbkdf2_hmac("sha256", password.encode(), salt, 10_000, dklen=80)


def _decipher(keys: bytes, ciphertext: bytes, where: str) -> str:
    # cryptography takes a while to import, and few inventories need it.
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from cryptography.hazmat.primitives.padding import PKCS7

    cipher = Cipher(algorithms.AES(keys[:32]), modes.CTR(keys[64:80])).decryptor()
    padding = PKCS7(128).unpadder()
    try:
        padded = cipher.update(ciphertext) + cipher.finalize()
        return (padding.update(padded) + padding.finalize()).decode()
    except ValueError:
        raise InputError("the vault value is no text in UTF-8", where=where) from None


def read_passwords(
    files: Iterable[Path], environment: Mapping[str, str] = os.environ
) -> tuple[Secret, ...]:
    """The vault passwords in `files`, else in the file that the environment names.

    An executable file is run, and what it prints is the password. Raises InputError when a
    password cannot be had.
    """
    paths = list(files)
    named = environment.get(PASSWORD_FILE_VARIABLE)
    if not paths and named:
        paths = [Path(named)]
    return tuple(_read_password(expand_user(path)) for path in paths)


def _read_password(path: Path) -> Secret:
    try:
        if os.access(path, os.X_OK) and path.is_file():
            done = subprocess.run([str(path.absolute())], capture_output=True, check=False)
            if done.returncode != 0:
                raise InputError(
                    f"the vault password script ended with exit status {done.returncode}",
                    where=str(path),
                )
            data = done.stdout
        else:
            data = path.read_bytes()
        password = data.decode().strip()
    except FileNotFoundError:
        raise InputError("no such vault password file", where=str(path)) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(path)) from None
    except UnicodeDecodeError:
        raise InputError("the vault password is no text in UTF-8", where=str(path)) from None
    if not password:
        raise InputError("the vault password is empty", where=str(path))
    return Secret(password)
