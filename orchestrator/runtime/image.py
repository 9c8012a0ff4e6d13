"""Images on hosts: what docker says of them, and which digest all hosts run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LocalImage:
    """An image that a host holds: its ID, and its digests by repository."""

    id: str
    digests: tuple[str, ...] = ()  # "repository@sha256:..."


@dataclass(slots=True)
class PullProgress:
    """How far a pull is, from the lines that `docker pull` prints without a terminal."""

    layers: dict[str, str] = field(default_factory=dict)  # layer -> its latest step
    digest: str | None = None
    status: str | None = None

    def feed(self, line: str) -> bool:
        """Take in one line; returns whether there is something new to show."""
        before = str(self)
        head, _, rest = line.partition(": ")
        if head == "Digest":
            self.digest = rest.strip()
        elif head == "Status":
            self.status = rest.strip()
        elif _is_layer(head):
            self.layers[head] = rest.strip()
        return str(self) != before

    def __str__(self) -> str:
        if self.status:
            return self.status
        done = sum(step in ("Pull complete", "Already exists") for step in self.layers.values())
        fetched = sum(step == "Download complete" for step in self.layers.values())
        text = f"{done} of {len(self.layers)} layers"
        return text + (f", {fetched} more downloaded" if fetched else "")


def parse_image(stdout: str) -> LocalImage:
    """What `docker_commands.image_inspect_command` printed."""
    identifier, _, digests = stdout.strip().partition(" ")
    return LocalImage(json.loads(identifier), tuple(json.loads(digests) or ()))


def parse_disk_free(stdout: str) -> int | None:
    """Free bytes from `df -Pk`; None when it printed something else."""
    fields = stdout.strip().splitlines()[-1].split() if stdout.strip() else []
    return int(fields[3]) * 1024 if len(fields) >= 6 and fields[3].isdigit() else None


def repository(reference: str) -> str:
    """The repository of an image reference as docker's own digests name it.

    `docker.io/library/debian:12` -> `debian`; `host:5000/vllm@sha256:...` -> `host:5000/vllm`.
    """
    name = reference.partition("@")[0]
    head, slash, last = name.rpartition("/")
    name = head + slash + last.partition(":")[0]
    for prefix in ("index.docker.io/", "docker.io/"):
        name = name.removeprefix(prefix)
    return name.removeprefix("library/")


def is_digest(reference: str) -> bool:
    """Whether the reference names a digest, which can never mean another image."""
    return "@sha256:" in reference


def digest_reference(image: LocalImage, reference: str) -> str | None:
    """`repository@sha256:...` of a local image, preferring the repository of `reference`.

    None for an image that never came from a registry.
    """
    wanted = repository(reference)
    own = [digest for digest in image.digests if repository(digest) == wanted]
    return next(iter([*own, *image.digests]), None)


def common_digest(found: Mapping[str, str]) -> str:
    """The digest reference that most hosts hold (host -> reference); the first on a tie."""
    return Counter(found.values()).most_common(1)[0][0]


def _is_layer(word: str) -> bool:
    return len(word) == 12 and all(c in "0123456789abcdef" for c in word)
