"""Flags that some versions of vLLM do not have: recipes outlive the versions they were made for.

What a user writes and the parser of FLAGS_VERSION does not have is most likely misspelt.

The table holds what is known; a flag that is not in it is taken to exist. `absent from` is the
first version that is known not to have the flag, `absent before` the first that has it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from orchestrator.errors import nearest
from orchestrator.recipes.arguments import canonical
from orchestrator.recipes.flags import FLAGS_VERSION, serve_flags
from orchestrator.recipes.resolved import Argument

Version = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class FlagHistory:
    """Versions that do not have a flag, or a key of a flag that takes JSON."""

    flag: str
    key: str | None = None
    absent_from: Version | None = None
    absent_before: Version | None = None
    instead: str = ""

    @property
    def name(self) -> str:
        return f"{self.flag} with {self.key}" if self.key else self.flag

    def absent(self, version: Version) -> bool:
        if self.absent_from is not None and version >= self.absent_from:
            return True
        return self.absent_before is not None and version < self.absent_before


HISTORY = (
    # vllm#29402
    FlagHistory(
        "--disable-log-requests",
        absent_from=(0, 12, 0),
        instead="--no-enable-log-requests, the default since",
    ),
    # Refused by the parser of 0.32.0, where the right names are these.
    FlagHistory(
        "--disable-flashinfer-autotune",
        absent_from=(0, 32, 0),
        instead="--no-enable-flashinfer-autotune",
    ),
    FlagHistory(
        "--tool-call-parser-plugin", absent_from=(0, 32, 0), instead="--tool-parser-plugin"
    ),
    # vllm#52550 deprecated it, 0.32.0 does not have it.
    FlagHistory(
        "--attention-config",
        "use_fp4_indexer_cache",
        absent_from=(0, 32, 0),
        instead='"indexer_kv_dtype": "mxfp4"',
    ),
    FlagHistory(
        "--compilation-config",
        "use_inductor",
        absent_from=(0, 32, 0),
        instead='"backend": "eager"',
    ),
    # In the recipes that shipped with 0.33.0, and refused by the parser of 0.32.0.
    FlagHistory("--attention-config", "indexer_decode_cp", absent_before=(0, 33, 0)),
    FlagHistory("--monokernel", absent_before=(0, 33, 0)),
)

_TAG = re.compile(r":v?(\d+)\.(\d+)\.(\d+)(?![\d.])[^/:@]*(?:@|$)")


def image_version(image: str) -> Version | None:
    """The version of vLLM that an image's tag names; None for `latest`, a nightly or a digest."""
    found = _TAG.search(image)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def missing_flags(version: Version, arguments: Iterable[Argument]) -> Iterator[FlagHistory]:
    """The flags among `arguments` that this version of vLLM is known not to have."""
    for argument in arguments:
        for history in HISTORY:
            if history.absent(version) and _uses(argument, history):
                yield history


def version_notes(image: str, arguments: Iterable[Argument]) -> list[str]:
    """What to tell a user of arguments that the image's vLLM would refuse at the start."""
    version = image_version(image)
    if version is None:
        return []
    shown = ".".join(map(str, version))
    return [
        f"vLLM {shown} ({image}) does not have {history.name}, which {argument.layer} gives"
        + (f": use {history.instead}" if history.instead else "")
        for argument in arguments
        for history in missing_flags(version, [argument])
    ]


@cache
def known_flags() -> frozenset[str]:
    """Every flag of `vllm serve` in its long form, and those that other versions had or have."""
    return serve_flags() | {history.flag for history in HISTORY}


def unknown_flags(arguments: Iterable[Argument]) -> list[str]:
    """What to tell a user of flags that no known vLLM has. An abbreviation is one it does have."""
    notes = []
    for argument in arguments:
        name = argument.flag.partition(".")[0]
        if name == "" or any(flag.startswith(name) for flag in known_flags()):
            continue
        near = nearest(name, sorted(known_flags()))
        notes.append(
            f"{argument.layer}: vLLM {FLAGS_VERSION} has no {name}, and would not start with it"
            + (f"; did you mean {near}?" if near else "")
        )
    return notes


def _uses(argument: Argument, history: FlagHistory) -> bool:
    head, _, keys = argument.flag.partition(".")
    if head != history.flag:
        return False
    if history.key is None:
        return True
    if keys:
        return keys.partition(".")[0] == history.key
    value = canonical(argument.tokens[0]).value or "".join(argument.tokens[1:2])
    try:
        given = json.loads(value)
    except ValueError:
        return False
    return isinstance(given, dict) and history.key in given
