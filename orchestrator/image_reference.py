"""What docker takes as the name of an image, so that a wrong one is refused before any host is
asked.

The grammar is that of github.com/distribution/reference v0.6.0, which docker and podman use:
`[HOST[:PORT]/]PATH[:TAG][@DIGEST]`.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

_HOST = re.compile(
    r"([a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)*"
    r"|\[[0-9a-fA-F:]+\])(:[0-9]+)?"
)
_COMPONENT = re.compile(r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*")
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_HEX_DIGITS = {"sha256": 64, "sha384": 96, "sha512": 128}  # the digests that docker can check
_LONGEST = 255  # of the path, to which docker adds `library/` where it has one part alone
_FORM = "an image is registry/repository:tag, or @sha256:... in the tag's place"


def checked_image(reference: str) -> str:
    """`reference` as it is. Raises ValueError, which says what is wrong, when it names no image."""
    name, at, digest = reference.partition("@")
    if at and not _is_digest(digest):
        raise ValueError(f"{_FORM}; {digest!r} is no digest, such as sha256: with 64 hex digits")
    path = name
    head, slash, rest = name.partition("/")
    # As docker tells a registry from the first part of a path.
    if slash and (head == "localhost" or head != head.lower() or set(head) & set(".:[")):
        if not _HOST.fullmatch(head):
            raise ValueError(f"{_FORM}; {head!r} is no registry: a host, and maybe a port")
        path = rest
    path, colon, tag = path.partition(":")
    if colon and not _TAG.fullmatch(tag):
        raise ValueError(
            f"{_FORM}; {tag!r} is no tag: letters, digits, _, . and -, 128 at most, and it begins "
            "with none of . and -"
        )
    for part in path.split("/"):
        if not _COMPONENT.fullmatch(part):
            raise ValueError(
                f"{_FORM}; {part!r} cannot stand in a repository: it is lower-case letters and "
                "digits, with single . or _, __ or any number of - between them"
            )
    if len(path if slash else f"library/{path}") > _LONGEST:
        raise ValueError(f"{_FORM}; the repository is longer than {_LONGEST} characters")
    if re.fullmatch("[0-9a-f]{64}", path):
        raise ValueError(f"{_FORM}; {path} is the ID of an image on one host, which no host pulls")
    return reference


def _is_digest(text: str) -> bool:
    algorithm, _, digits = text.partition(":")
    return len(digits) == _HEX_DIGITS.get(algorithm) and not set(digits) - set("0123456789abcdef")


ImageReference = Annotated[str, AfterValidator(checked_image)]
