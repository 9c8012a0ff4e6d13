"""known_hosts files: which keys a host is known by (sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT")."""

from __future__ import annotations

import base64
import binascii
import fnmatch
import hashlib
import hmac
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Verdict = Literal["known", "new", "changed", "revoked"]


@dataclass(frozen=True, slots=True)
class KnownKey:
    """One line of a known_hosts file that speaks of a host."""

    marker: str  # "", "@revoked" or "@cert-authority"
    type: str
    blob: bytes
    file: Path
    line: int

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.blob)


def fingerprint(blob: bytes) -> str:
    """As `ssh-keygen -l` prints it."""
    digest = hashlib.sha256(blob).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def name_of(hostname: str, port: int) -> str:
    """The name that a host has in known_hosts."""
    return hostname.lower() if port == 22 else f"[{hostname.lower()}]:{port}"


def known_keys(files: Iterable[Path], name: str) -> list[KnownKey]:
    """All keys that `files` hold for `name`. A missing file or a broken line says nothing."""
    keys = []
    for file in files:
        try:
            lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        for number, line in enumerate(lines, 1):
            key = _parse(line, name, file, number)
            if key:
                keys.append(key)
    return keys


def judge(key_type: str, blob: bytes, known: Iterable[KnownKey]) -> tuple[Verdict, KnownKey | None]:
    """What to think of a presented key, and the line that says so.

    A key of a type that is not on record, of a host of which other types are, counts as
    changed: otherwise whoever sits in between would only have to offer another type.
    """
    plain = []
    for entry in known:
        if entry.marker == "@revoked":
            if entry.blob == blob:
                return "revoked", entry
        elif not entry.marker:
            plain.append(entry)
    for entry in plain:
        if entry.blob == blob:
            return "known", entry
    if not plain:
        return "new", None
    return "changed", next((entry for entry in plain if entry.type == key_type), plain[0])


def add(file: Path, name: str, key_type: str, blob: bytes) -> None:
    """Append a key, making the file (0600) and its directory (0700) when they are missing."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "rb+") as stream:
        size = stream.seek(0, os.SEEK_END)
        unended = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        text = f"{name} {key_type} {base64.b64encode(blob).decode()}\n"
        stream.write(("\n" if unended else "").encode() + text.encode())


def _parse(line: str, name: str, file: Path, number: int) -> KnownKey | None:
    words = line.split()
    marker = words.pop(0) if words and words[0].startswith("@") else ""
    if len(words) < 3 or words[0].startswith("#") or not _names(words[0], name):
        return None
    try:
        blob = base64.b64decode(words[2], validate=True)
    except binascii.Error:
        return None
    return KnownKey(marker, words[1], blob, file, number)


def _names(patterns: str, name: str) -> bool:
    """Whether the first field of a line means `name`: hashed, or patterns with * ? and !."""
    if patterns.startswith("|1|"):
        try:
            salt, digest = (base64.b64decode(part) for part in patterns[3:].split("|"))
        except ValueError:
            return False
        return hmac.compare_digest(hmac.digest(salt, name.encode(), "sha1"), digest)
    found = False
    for pattern in patterns.lower().split(","):
        # Brackets are literal here: [host]:port.
        if fnmatch.fnmatchcase(name, pattern.removeprefix("!").replace("[", "[[]")):
            if pattern.startswith("!"):
                return False
            found = True
    return found
