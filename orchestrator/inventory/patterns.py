"""Host patterns as Ansible has them: `rack1:&h200:!node07`, globs, `~regex`, `group[0:3]`."""

from __future__ import annotations

import fnmatch
import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from orchestrator.errors import InputError, did_you_mean, nearest

_SUBSCRIPT = re.compile(r"(.+)\[(?:(-?\d+)|(\d+)[:-](\d*))\]")
_WILDCARDS = re.compile(r"[*?\[]")
_SEPARATED = re.compile(r"(?:[^:\[\]]|\[[^\[\]]*\])+")


def split_pattern(text: str) -> list[str]:
    """The parts of a pattern: at commas, else at colons outside of brackets and IPv6 addresses."""
    if "," in text:
        parts = text.split(",")
    elif _is_ipv6(text.lstrip("!&")):
        parts = [text]
    else:
        parts = _SEPARATED.findall(text)
    return [part.strip() for part in parts if part.strip()]


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def read_pattern(text: str) -> str:
    """`text`, or what the file says when it is `@file`: one pattern a line, # for a comment.

    Raises InputError when the file cannot be read or names no host.
    """
    parts = []
    for part in text.split(","):
        if not part.strip().startswith("@"):
            parts.append(part)
            continue
        path = Path(part.strip()[1:])
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "no text in UTF-8"
            raise InputError(f"cannot be read: {reason}", where=str(path)) from None
        names = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
        if not names:
            raise InputError("the file names no host", where=str(path))
        parts += names
    return ",".join(parts) if len(parts) > 1 else parts[0]


def match(
    pattern: str,
    hosts: Mapping[str, object],
    groups: Mapping[str, object],
    hosts_of: Callable[[str], Sequence[str]],
) -> list[str]:
    """The names of the hosts that `pattern` means, in order.

    `hosts_of` gives a group's hosts. Raises InputError for a name that is neither a host nor a
    group, and for a broken regular expression.
    """
    parts = split_pattern(pattern)
    if not parts:
        raise InputError(
            "the host pattern is empty", hint="name a host or a group; `all` is every host"
        )

    def matched(part: str) -> list[str]:
        return _match_part(part, hosts, groups, hosts_of)

    wanted = [part for part in parts if part[0] not in "&!"] or ["all"]
    found: dict[str, None] = {}
    for part in wanted:
        found.update(dict.fromkeys(matched(part)))
    for part in (part for part in parts if part[0] == "&"):
        both = set(matched(part[1:]))
        found = {name: None for name in found if name in both}
    for part in (part for part in parts if part[0] == "!"):
        for name in matched(part[1:]):
            found.pop(name, None)
    return list(found)


def _match_part(
    part: str,
    hosts: Mapping[str, object],
    groups: Mapping[str, object],
    hosts_of: Callable[[str], Sequence[str]],
) -> list[str]:
    if part in hosts and part not in groups:
        return [part]
    base, cut = _subscript(part)
    if base.startswith("~"):
        expression = _regular_expression(base[1:])
    elif _WILDCARDS.search(base):
        expression = re.compile(fnmatch.translate(base))
    else:
        return cut(_exact(base, hosts, groups, hosts_of))
    found: dict[str, None] = {}
    for group in groups:
        if expression.match(group):
            found.update(dict.fromkeys(hosts_of(group)))
    found.update(dict.fromkeys(name for name in hosts if expression.match(name)))
    return cut(list(found))


def _exact(
    name: str,
    hosts: Mapping[str, object],
    groups: Mapping[str, object],
    hosts_of: Callable[[str], Sequence[str]],
) -> list[str]:
    if name in ("all", "*"):
        return list(hosts_of("all"))
    if name in groups:
        return list(hosts_of(name))
    if name in hosts:
        return [name]
    known = {**groups, **hosts}
    hint = did_you_mean(name, known) if nearest(name, known) or len(known) <= 20 else None
    raise InputError(
        f"the host pattern names {name!r}, and there is no host or group of this name in the "
        "inventory",
        hint=hint or "`orc inventory --graph` shows what there is",
    )


def _regular_expression(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise InputError(
            f"the host pattern ~{text[:80]} is no regular expression: {error}"
        ) from None


def _subscript(part: str) -> tuple[str, Callable[[list[str]], list[str]]]:
    """A pattern without its `[2]` or `[0:3]`, and what takes just these; both ends count."""
    found = None if part.startswith("~") else _SUBSCRIPT.fullmatch(part)
    if found is None:
        return part, lambda names: names
    base, index, first, last = found.groups()
    if index is not None:
        at = int(index)
        return base, lambda names: [names[at]] if -len(names) <= at < len(names) else []
    end = int(last) + 1 if last else None
    return base, lambda names: names[int(first) : end]
