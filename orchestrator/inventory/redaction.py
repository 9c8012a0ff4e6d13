"""What is secret among variables, and how it is hidden, revealed to a template, and shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.secret import REDACTED, Secret, holds_login, is_secret_name
from orchestrator.yaml_loader import VaultText

_PASSWORD_NAME = re.compile(r"ansible_(.+_)?(pass|password|passwd|passphrase)")

# A password among the words of a command, as in ProxyCommand="sshpass -p WORD ssh ...".
_PASSWORD_OPTION = re.compile(
    r"(sshpass\s+(?:-(?!p)\S+\s+)*-p\s*|(?:^|\s)(?:--?passw(?:or)?d|--?pass(?:phrase)?|-pw)[=\s]\s*)"
    r"""("[^"]*"|'[^']*'|\S+)""",
    re.IGNORECASE,
)


def is_secret_variable(name: str) -> bool:
    """Whether the values of variables of this name are never shown."""
    return is_secret_name(name) or _PASSWORD_NAME.fullmatch(name) is not None


@dataclass(slots=True)
class Reading:
    """What one template touched while it was rendered."""

    secret: bool = False
    looked_up: bool = False


def conceal(value: Any) -> Any:
    """`value` with every text and number in it as a `Secret`."""
    if isinstance(value, dict):
        return {key: conceal(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [conceal(part) for part in value]
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return value
    return Secret(str(value))


def without_passwords(words: str) -> str:
    """The words of a command with the value of a password option redacted."""
    if holds_login(words):
        return REDACTED
    return _PASSWORD_OPTION.sub(lambda found: found[1] + REDACTED, words)


def redacted(name: str, value: Any, *, secret: bool = False) -> Any:
    """`value` as it may be shown: what is secret, or stands under a secret name, redacted."""
    secret = secret or is_secret_variable(name)
    if isinstance(value, Mapping):
        return {str(key): redacted(str(key), part, secret=secret) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [redacted(name, part, secret=secret) for part in value]
    if isinstance(value, VaultText | Secret):
        return REDACTED
    secret = secret or (isinstance(value, str) and holds_login(value))
    if secret and value is not None:
        return REDACTED
    return without_passwords(value) if isinstance(value, str) and name.endswith("_args") else value


def reveal(value: Any, reading: Reading) -> Any:
    """`value` with its secrets revealed, which `reading` then remembers."""
    if isinstance(value, Secret):
        reading.secret = True
        return value.reveal()
    if isinstance(value, dict):
        return {key: reveal(part, reading) for key, part in value.items()}
    if isinstance(value, list):
        return [reveal(part, reading) for part in value]
    return value
