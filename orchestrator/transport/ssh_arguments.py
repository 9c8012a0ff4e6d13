"""The words of `ansible_ssh_common_args`: which of ssh's arguments can be honoured here."""

from __future__ import annotations

import re
from dataclasses import dataclass

from orchestrator.errors import InputError, did_you_mean

# ssh(1): options without and with a value.
_FLAGS = "46aCkqTvx"
_WITH_VALUE = "bcFiJlmop"

# ssh_config(5) keywords that have their effect here.
_HONOURED = frozenset(
    re.findall(
        r"\w+",
        """
    addressfamily batchmode bindaddress ciphers compression connecttimeout globalknownhostsfile
    hostkeyalgorithms hostkeyalias hostname identitiesonly identityagent identityfile
    kbdinteractiveauthentication kexalgorithms macs passwordauthentication port
    preferredauthentications proxycommand proxyjump pubkeyauthentication serveralivecountmax
    serveraliveinterval stricthostkeychecking user userknownhostsfile
    """,
    )
)
# Keywords whose absence changes nothing about what runs where: connections are shared anyway,
# nobody looks at a terminal, and a method of logging in that we lack is skipped as by a server.
_WITHOUT_EFFECT = frozenset(
    re.findall(
        r"\w+",
        """
    addkeystoagent canonicaldomains canonicalizefallbacklocal canonicalizehostname
    canonicalizemaxdots canonicalizepermittedcnames checkhostip clearallforwardings
    connectionattempts controlmaster controlpath controlpersist escapechar exitonforwardfailure
    fingerprinthash gssapiauthentication gssapidelegatecredentials hashknownhosts
    hostbasedauthentication ipqos loglevel nohostauthenticationforlocalhost
    numberofpasswordprompts permitlocalcommand tcpkeepalive updatehostkeys visualhostkey
    """,
    )
)
# What may only be said when it asks for what happens anyway.
_ONLY = {"forwardagent": "no", "forwardx11": "no", "requesttty": "no", "stdinnull": "no"}


@dataclass(frozen=True, slots=True)
class SshArguments:
    """Parsed words. `words` are for `ssh -G`; `config_file` also holds for jump hosts."""

    words: tuple[str, ...] = ()
    config_file: str | None = None
    key_files: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()  # lower-case keyword, value; first one wins


_KEYWORD = {"l": "user", "p": "port", "i": "identityfile", "J": "proxyjump", "b": "bindaddress",
            "c": "ciphers", "m": "macs"}  # fmt: skip
_FLAG_KEYWORD = {"4": ("addressfamily", "inet"), "6": ("addressfamily", "inet6"),
                 "C": ("compression", "yes")}  # fmt: skip


def parse(words: tuple[str, ...], where: str) -> SshArguments:
    """Raises InputError for an argument that would be silently without effect."""
    kept: list[str] = []
    options: list[tuple[str, str]] = []
    config_file = None
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or word in ("-", "--"):
            raise _refused(word, where, "it is not an option; the host's address is ansible_host")
        letters = word[1:]
        while letters:
            letter, letters = letters[0], letters[1:]
            if letter in _FLAGS:
                kept.append(f"-{letter}")
                options += [_FLAG_KEYWORD[letter]] if letter in _FLAG_KEYWORD else []
                continue
            if letter not in _WITH_VALUE:
                raise _refused(f"-{letter}", where, "orc has no use for it")
            if not letters and not rest:
                raise _refused(f"-{letter}", where, "it needs a value")
            value, letters = letters or rest.pop(0), ""
            if letter == "o":
                option = _option(value, where)
                options.append(option)
            elif letter == "F":
                config_file = value
            else:
                options.append((_KEYWORD[letter], value))
            kept += [f"-{letter}", value]
    keys = tuple(value for keyword, value in options if keyword == "identityfile")
    return SshArguments(tuple(kept), config_file, keys, tuple(options))


def _option(text: str, where: str) -> tuple[str, str]:
    keyword, separator, value = text.strip().partition("=")
    if not separator:
        keyword, _, value = text.strip().partition(" ")
    keyword, value = keyword.strip().lower(), value.strip()
    if len(value) >= 2 and value[0] == value[-1] == '"':
        value = value[1:-1]
    if keyword in _HONOURED or keyword in _WITHOUT_EFFECT or _ONLY.get(keyword) == value.lower():
        return keyword, value
    raise _refused(f"-o {text}", where, did_you_mean(keyword, _HONOURED))


def _refused(argument: str, where: str, why: str) -> InputError:
    return InputError(
        f"{argument} in ansible_ssh_common_args cannot be honoured",
        where=where,
        why=why,
        hint="remove it, or write the connection as -J, -i, -F, -p, -l or -o words",
    )
