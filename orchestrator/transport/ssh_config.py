"""How to reach a host: inventory variables over ssh's own configuration.

Where there is an `ssh` client, `ssh -G` resolves the configuration, and so exactly as `ssh`
does (Host, Match, Include, canonical names). Without one, paramiko's parser reads the file.
"""

from __future__ import annotations

import functools
import os
import pwd
import re
import shutil
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from orchestrator.documents import expand_user
from orchestrator.errors import InputError
from orchestrator.inventory.host import ConnectionSettings, Host
from orchestrator.secret import Secret
from orchestrator.transport import ssh_arguments
from orchestrator.transport.ssh_arguments import SshArguments

HostKeyChecking = Literal["strict", "accept-new", "off"]

_MOST_HOPS = 8
_METHODS = ("publickey", "password", "keyboard-interactive")


@dataclass(frozen=True, slots=True)
class SshOptions:
    """What holds for all connections of a run. Times in seconds."""

    forks: int = 32
    connect_timeout: float = 10.0  # unless ssh's configuration has a ConnectTimeout
    accept_new_host_keys: bool = False
    config_file: Path | None = None  # instead of ~/.ssh/config, like `ssh -F`
    keepalive_interval: float = 5.0  # unless there is a ServerAliveInterval
    keepalive_limit: float = 15.0  # without an answer for so long, a connection is dead


@dataclass(frozen=True, slots=True)
class SshTarget:
    """One machine to log in to, everything resolved. Equal targets share a connection."""

    name: str  # as the inventory or ProxyJump calls it
    hostname: str
    port: int
    user: str
    identity_files: tuple[Path, ...] = ()
    chosen_keys: tuple[Path, ...] = ()  # those that were named for this host: must exist
    identities_only: bool = False
    identity_agent: str | None = None  # a socket's path; None: no agent
    host_key_name: str = ""  # in known_hosts
    user_known_hosts: tuple[Path, ...] = ()
    global_known_hosts: tuple[Path, ...] = ()
    host_key_checking: HostKeyChecking = "strict"
    connect_timeout: float = 10.0
    keepalive_interval: float = 5.0
    keepalive_limit: float = 15.0
    proxy_command: str | None = None
    hop: SshTarget | None = None
    password: Secret | None = None
    batch: bool = False  # ask nothing
    methods: tuple[str, ...] = _METHODS
    family: int = socket.AF_UNSPEC
    bind_address: str | None = None
    compression: bool = False
    algorithms: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False)

    @property
    def place(self) -> str:
        """`node01 (192.0.2.11:22)`, for messages."""
        where = f"[{self.hostname}]" if ":" in self.hostname else self.hostname
        address = f"{where}:{self.port}"
        via = f", via {self.hop.name}" if self.hop else ""
        return f"{self.name} ({address}{via})"


def resolve(host: Host, options: SshOptions) -> SshTarget:
    """Everything needed to log in to `host`. Raises InputError for what cannot be honoured."""
    settings = host.connection
    where = f"host {host.name}"
    arguments = ssh_arguments.parse(settings.common_args, where)
    config_file = arguments.config_file or (str(options.config_file) if options.config_file else "")
    return _target(host.name, settings, arguments, config_file, options, ())


def _target(
    name: str,
    settings: ConnectionSettings,
    arguments: SshArguments,
    config_file: str,
    options: SshOptions,
    hops: tuple[str, ...],
) -> SshTarget:
    address = settings.address or name
    if address.startswith("-") or not address:
        raise InputError(f"{address!r} is not an address", where=f"host {name}")
    keys = [settings.private_key_file] if settings.private_key_file else []
    chosen = tuple(_home(key) for key in [*keys, *arguments.key_files])
    words = [
        *(["-l", settings.user] if settings.user else []),
        *(["-p", str(settings.port)] if settings.port else []),
        *(word for key in keys for word in ("-i", str(_home(key)))),
        *arguments.words,
    ]
    if config_file and "-F" not in words:
        words += ["-F", config_file]
    config = _resolved(name, address, words, arguments, settings, config_file)
    one = functools.partial(_one, config)
    user, port, hostname = one("user") or "", int(one("port") or 22), one("hostname") or address
    endpoint = f"{user}@{hostname}:{port}"
    if hops and hops[-1] == endpoint:
        raise _Itself
    tokens = _tokens(address, hostname, port, user, one("hostkeyalias"))
    interval = float(one("serveraliveinterval") or 0)
    count = int(one("serveralivecountmax") or 3)
    files = tuple(_path(file, tokens) for file in config.get("identityfile", ()))
    jump = one("proxyjump")
    wanted = one("preferredauthentications")
    return SshTarget(
        name=name,
        hostname=hostname,
        port=port,
        user=user,
        identity_files=(*chosen, *(file for file in files if file not in chosen)),
        chosen_keys=chosen,
        identities_only=_yes(one("identitiesonly")),
        identity_agent=_agent(one("identityagent"), tokens),
        host_key_name=tokens["k"] if one("hostkeyalias") else "",
        user_known_hosts=_files(config, "userknownhostsfile", tokens),
        global_known_hosts=_files(config, "globalknownhostsfile", tokens),
        host_key_checking=_checking(one("stricthostkeychecking"), options),
        connect_timeout=float(_number(one("connecttimeout")) or options.connect_timeout),
        keepalive_interval=interval or options.keepalive_interval,
        keepalive_limit=interval * count if interval else options.keepalive_limit,
        proxy_command=None if jump else _proxy_command(one("proxycommand"), tokens),
        hop=_hop(jump, config_file, options, (*hops, endpoint)),
        password=settings.password,
        batch=_yes(one("batchmode")),
        methods=tuple(
            method
            for method in (wanted.split(",") if wanted else _METHODS)
            if method in _METHODS and _method_on(method, config)
        ),
        family={"inet": socket.AF_INET, "inet6": socket.AF_INET6}.get(
            one("addressfamily") or "", socket.AF_UNSPEC
        ),
        bind_address=one("bindaddress"),
        compression=_yes(one("compression")),
        algorithms={
            key: tuple(text.split(","))
            for key in ("ciphers", "macs", "kexalgorithms", "hostkeyalgorithms")
            if (text := one(key))
        },
    )


def _hop(
    jump: str | None, config_file: str, options: SshOptions, seen: tuple[str, ...]
) -> SshTarget | None:
    """The last machine of a ProxyJump list, reached through the ones before it.

    As ssh does it: each hop by its own configuration, of the inventory only -F holds.
    """
    if not jump or jump.lower() == "none":
        return None
    *before, spec = jump.split(",")
    match = re.fullmatch(r"(?:ssh://)?(?:(.+)@)?(?:\[(.+)\]|([^:]+))(?::(\d+))?/?", spec.strip())
    if not match:
        raise InputError(f"ProxyJump {spec!r} is not [user@]host[:port]", where=seen[0])
    user, bracketed, plain, port = match.groups()
    name = bracketed or plain
    settings = ConnectionSettings(
        address=name, user=user, port=int(port) if port else None, common_args=()
    )
    words = ("-J", ",".join(before)) if before else ()
    arguments = ssh_arguments.parse(words, f"ProxyJump {spec}")
    if len(seen) > _MOST_HOPS:
        raise InputError(
            f"more than {_MOST_HOPS} jump hosts in a row",
            where=seen[0],
            why=" -> ".join(seen),
            hint="a ProxyJump that leads back to itself? Give the jump host `ProxyJump none`",
        )
    try:
        return _target(name, settings, arguments, config_file, options, seen)
    except _Itself:
        return None


class _Itself(Exception):
    """`Host *` with a ProxyJump says of the jump host, too, that the way goes through it."""


def _resolved(
    name: str,
    address: str,
    words: list[str],
    arguments: SshArguments,
    settings: ConnectionSettings,
    config_file: str,
) -> Mapping[str, tuple[str, ...]]:
    """Keyword (lower case) to its values."""
    ssh = shutil.which("ssh")
    if not ssh:
        from orchestrator.transport.ssh_config_file import lookup

        first = {
            "user": settings.user or "",
            "port": str(settings.port or ""),
            "identityfile": settings.private_key_file or "",
        }
        return lookup(address, config_file, first, arguments.options)
    return _ssh_g(name, (ssh, "-G", "-T", *words, "--", address))


def _ssh_g(name: str, command: tuple[str, ...]) -> Mapping[str, tuple[str, ...]]:
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise InputError(
            "ssh does not accept this host's configuration",
            where=f"host {name}",
            why=done.stderr.strip() or f"ssh -G ended with {done.returncode}",
            hint="correct ~/.ssh/config, or the ansible_* variables of the host",
        )
    config: dict[str, tuple[str, ...]] = {}
    for line in done.stdout.splitlines():
        keyword, _, value = line.partition(" ")
        config[keyword] = (*config.get(keyword, ()), value)
    return config


def _one(config: Mapping[str, tuple[str, ...]], keyword: str) -> str | None:
    values = config.get(keyword)
    return values[0] if values else None


def _tokens(address: str, hostname: str, port: int, user: str, alias: str | None) -> dict[str, str]:
    """ssh_config(5), TOKENS."""
    local = socket.gethostname()
    account = pwd.getpwuid(os.getuid())
    return {
        "%": "%",
        "d": account.pw_dir,
        "h": hostname,
        "i": str(os.getuid()),
        "k": (alias or address).lower(),
        "L": local.split(".")[0],
        "l": local,
        "n": address,
        "p": str(port),
        "r": user,
        "u": account.pw_name,
    }


def _expand(text: str, tokens: Mapping[str, str]) -> str:
    return re.sub(r"%(.)", lambda match: tokens.get(match[1], match[0]), text)


def _path(text: str, tokens: Mapping[str, str]) -> Path:
    text = re.sub(r"\$\{(\w+)\}", lambda match: os.environ.get(match[1], ""), text)
    text = _expand(text, tokens)
    # ssh goes by the password database, not by $HOME.
    return Path(tokens["d"] + text[1:] if text.startswith("~/") else text)


def _home(text: str) -> Path:
    return expand_user(text)


def _files(
    config: Mapping[str, tuple[str, ...]], keyword: str, tokens: Mapping[str, str]
) -> tuple[Path, ...]:
    words = " ".join(config.get(keyword, ())).split()
    return tuple(_path(word, tokens) for word in words if word.lower() != "none")


def _agent(text: str | None, tokens: Mapping[str, str]) -> str | None:
    if text is None or text == "SSH_AUTH_SOCK":
        return os.environ.get("SSH_AUTH_SOCK") or None
    if text.lower() == "none":
        return None
    if text.startswith("$") and not text.startswith("${"):
        return os.environ.get(text[1:]) or None
    return str(_path(text, tokens))


def _proxy_command(text: str | None, tokens: Mapping[str, str]) -> str | None:
    return None if not text or text.lower() == "none" else _expand(text, tokens)


def _checking(text: str | None, options: SshOptions) -> HostKeyChecking:
    if text in ("no", "off", "false"):
        return "off"
    if text == "accept-new" or options.accept_new_host_keys:
        return "accept-new"
    return "strict"


def _yes(text: str | None) -> bool:
    return text in ("yes", "true")


def _number(text: str | None) -> float | None:
    return float(text) if text and text.isdigit() else None


def _method_on(method: str, config: Mapping[str, tuple[str, ...]]) -> bool:
    keyword = {
        "publickey": "pubkeyauthentication",
        "password": "passwordauthentication",
        "keyboard-interactive": "kbdinteractiveauthentication",
    }[method]
    return _one(config, keyword) not in ("no", "false")
