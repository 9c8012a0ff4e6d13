"""~/.ssh/config without an `ssh` client: paramiko's parser, and Include, which it lacks."""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from pathlib import Path

from orchestrator.documents import expand_user
from orchestrator.errors import InputError

_MOST_INCLUDES = 16  # ssh's own limit
_DEFAULT_KEYS = ("id_rsa", "id_ecdsa", "id_ed25519")


def lookup(
    address: str,
    config_file: str,
    first: Mapping[str, str],
    options: tuple[tuple[str, str], ...],
) -> Mapping[str, tuple[str, ...]]:
    """What `ssh -G` would say, as far as it matters here: keyword to values.

    `first` goes before `options` (the inventory's), and those before the file.
    """
    import paramiko

    given: dict[str, list[str]] = {}
    for keyword, value in (*first.items(), *options):
        if value and (keyword == "identityfile" or keyword not in given):
            given.setdefault(keyword, []).append(value)
    files = [Path(config_file)] if config_file else [Path.home() / ".ssh/config"]
    if config_file and not files[0].is_file():
        raise InputError(f"{config_file}: no such file", where="ssh configuration")
    if not config_file:
        files.append(Path("/etc/ssh/ssh_config"))
    text = "\n".join(line for file in files if file.is_file() for line in _lines(file, 0))
    # What goes before the file must be known to the parser: `Match user`, %h, %p and %r ask it.
    forced = "".join(
        f"{key} {value[0]}\n" for key, value in given.items() if key in ("user", "port", "hostname")
    )
    try:
        found = paramiko.SSHConfig.from_text(forced + text).lookup(address)
    except paramiko.SSHException as error:
        raise InputError(str(error), where=str(files[0])) from None
    config: dict[str, list[str]] = {}
    for keyword, value in found.items():
        if value is not None:
            config[keyword] = value if isinstance(value, list) else [value]
    keys = given.pop("identityfile", []) + config.get("identityfile", [])
    config |= given
    config["identityfile"] = keys or [f"~/.ssh/{name}" for name in _DEFAULT_KEYS]
    config.setdefault("user", [getpass.getuser()])
    config.setdefault("userknownhostsfile", ["~/.ssh/known_hosts ~/.ssh/known_hosts2"])
    config.setdefault(
        "globalknownhostsfile", ["/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2"]
    )
    return {keyword: tuple(values) for keyword, values in config.items()}


def _lines(file: Path, depth: int, block: str = "") -> list[str]:
    """A file's lines with Include replaced by what it includes."""
    if depth > _MOST_INCLUDES:
        raise InputError("too many levels of Include", where=str(file))
    lines = []
    outer = block
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        keyword, _, value = line.strip().replace("=", " ", 1).partition(" ")
        if keyword.lower() in ("host", "match"):
            if outer:
                raise InputError(
                    f"{keyword} in a file that is included under {outer!r}",
                    where=f"{file}:{number}",
                    hint="install the OpenSSH client, which understands this",
                )
            block = line.strip()
        if keyword.lower() != "include":
            lines.append(line)
            continue
        for pattern in value.split():
            for path in _matching(pattern.strip('"')):
                lines += _lines(path, depth + 1, block)
        lines.append(block or "Host *")
    return lines


def _matching(pattern: str) -> list[Path]:
    path = expand_user(pattern)
    if not path.is_absolute():
        path = Path.home() / ".ssh" / path
    return sorted(Path(path.anchor).glob(str(path.relative_to(path.anchor))))
