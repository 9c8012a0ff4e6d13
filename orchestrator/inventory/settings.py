"""What a host's `orc_*` and `ansible_*` variables say, checked."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from orchestrator.documents import expand_user
from orchestrator.errors import InputError, did_you_mean
from orchestrator.inventory.host import ConnectionSettings, HostSettings, is_network_name
from orchestrator.inventory.layers import Layer
from orchestrator.inventory.redaction import Reading, reveal
from orchestrator.inventory.variables import ENVIRONMENT, HostVariables
from orchestrator.secret import REDACTED, Secret

PREFIX = "orc_"
SETTINGS = tuple(PREFIX + name for name in HostSettings.model_fields)

# Where several names mean the same, Ansible takes the last that is set.
_ADDRESS = ("ansible_host", "ansible_ssh_host")
_PORT = ("ansible_port", "ansible_ssh_port")
_USER = ("ansible_user", "ansible_ssh_user")
_KEY_FILE = ("ansible_private_key_file", "ansible_ssh_private_key_file")
_PASSWORD = ("ansible_password", "ansible_ssh_pass", "ansible_ssh_password")
_PASSPHRASE = ("ansible_private_key_passphrase", "ansible_ssh_private_key_passphrase")
_BECOME_PASSWORD = ("ansible_sudo_pass", "ansible_become_password", "ansible_become_pass")
_SSH_ARGUMENTS = ("ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args")

_SSH = ("ssh", "smart", "paramiko", "paramiko_ssh")  # all of them are SSH to the same host
_TRUE = ("yes", "true", "on", "1", "y", "t")
_FALSE = ("no", "false", "off", "0", "n", "f", "")


def check_names(layers: Iterable[Layer]) -> None:
    """Raises InputError for the first `orc_*` variable that does not exist."""
    for layer in layers:
        for name in layer.values:
            if name.startswith(PREFIX) and name not in SETTINGS:
                raise layer.error(
                    f"unknown variable {name!r}", (name,), hint=did_you_mean(name, SETTINGS)
                )


def host_settings(variables: HostVariables) -> HostSettings:
    """The `orc_*` variables of a host. Raises InputError at the place of a wrong value."""
    values: dict[str, Any] = {}
    for field in HostSettings.model_fields:
        name = PREFIX + field
        if name == ENVIRONMENT and name in variables:
            values[field] = variables.environment()
        elif name in variables and (value := _plain(variables, name)) is not None:
            values[field] = value
    try:
        return HostSettings.model_validate(values)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=True)
        lines = [_fault(variables, fault) for fault in faults]
        where = variables.where(PREFIX + str(faults[0]["loc"][0]))
        raise InputError("\n".join(lines), where=where) from None


def _plain(variables: HostVariables, name: str) -> Any:
    """The value, which is shown by `orc plan` and stands on command lines, so is no secret's.

    Of a file that is encrypted as a whole nobody can tell which values are secret.
    """
    reading = Reading()
    value = reveal(variables.resolve(name).value, reading)
    if reading.secret and not variables.written[name].layer.encrypted:
        raise InputError(
            f"{name} of host {variables.host!r} is {REDACTED}, and it would be shown and stand on "
            "a command line",
            where=variables.where(name),
            hint="secrets go into orc_env",
        )
    return value


def _fault(variables: HostVariables, fault: Any) -> str:
    name = PREFIX + str(fault["loc"][0])
    shown = variables.shown(name)
    if name == "orc_container_args":
        shown = "wrong"  # it may hold a secret
    message = fault["msg"].removeprefix("Value error, ")
    if shown == REDACTED:
        message = "not what it must be"  # the message may quote the value
    elif message[1:2].islower():
        message = message[:1].lower() + message[1:]
    return f"{name} of host {variables.host!r} is {shown}: {message}"


def connection_settings(variables: HostVariables) -> ConnectionSettings:
    """The `ansible_*` connection variables of a host. Raises InputError for a wrong value."""
    key_file = _text(variables, _KEY_FILE)
    return ConnectionSettings(
        kind="local" if _connection(variables) == "local" else "ssh",
        address=_name(variables, _ADDRESS) or variables.host,
        port=_port(variables),
        user=_name(variables, _USER),
        private_key_file=str(expand_user(key_file)) if key_file else None,
        private_key_passphrase=_secret(variables, _PASSPHRASE),
        password=_secret(variables, _PASSWORD),
        become=_become(variables),
        become_user=_text(variables, ("ansible_become_user",)),
        become_password=_secret(variables, _BECOME_PASSWORD),
        common_args=_ssh_arguments(variables),
    )


def _last(variables: HostVariables, names: tuple[str, ...]) -> str | None:
    """The last of `names` that is set to something."""
    found = [name for name in names if name in variables.written]
    return next(
        (name for name in reversed(found) if variables.written[name].value is not None), None
    )


def _text(variables: HostVariables, names: tuple[str, ...]) -> str | None:
    name = _last(variables, names)
    if name is None:
        return None
    value = variables.plain(name)
    if isinstance(value, dict | list | bool):
        raise InputError(
            f"{name} is text, not {variables.shown(name)}", where=variables.where(name)
        )
    return str(value) if value is not None and value != "" else None


def _name(variables: HostVariables, names: tuple[str, ...]) -> str | None:
    text, name = _text(variables, names), _last(variables, names)
    if text and name and not is_network_name(text):
        raise InputError(
            f"{name} of host {variables.host!r} is {variables.shown(name)}: a name has no spaces, "
            "quotes or shell characters",
            where=variables.where(name),
        )
    return text


def _secret(variables: HostVariables, names: tuple[str, ...]) -> Secret | None:
    name = _last(variables, names)
    return variables.secret(name) if name is not None else None


def _connection(variables: HostVariables) -> str:
    value = (_text(variables, ("ansible_connection",)) or "ssh").removeprefix("ansible.builtin.")
    if value in _SSH:
        return "ssh"
    if value != "local":
        raise InputError(
            f"host {variables.host!r}: there is no connection {value!r} here",
            where=variables.where("ansible_connection"),
            hint="ansible_connection is ssh or local",
        )
    return value


def _port(variables: HostVariables) -> int | None:
    name = _last(variables, _PORT)
    text = _text(variables, _PORT)
    if name is None or text is None:
        return None
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= 65535):
        raise InputError(
            f"{name} of host {variables.host!r}: a port is 1 to 65535, not {variables.shown(name)}",
            where=variables.where(name),
        )
    return int(text)


def _become(variables: HostVariables) -> bool:
    name = "ansible_become"
    if name not in variables:
        return False
    text = str(variables.plain(name)).lower()
    if text not in _TRUE + _FALSE + ("none",):
        raise InputError(
            f"{name} is true or false, not {variables.shown(name)}", where=variables.where(name)
        )
    method = _text(variables, ("ansible_become_method",)) or "sudo"
    if text in _TRUE and method.removeprefix("ansible.builtin.") != "sudo":
        raise InputError(
            f"host {variables.host!r}: there is no way {method!r} to become another user here",
            where=variables.where("ansible_become_method"),
            hint="ansible_become_method is sudo",
        )
    return text in _TRUE


def _ssh_arguments(variables: HostVariables) -> tuple[str, ...]:
    words: list[str] = []
    for name in _SSH_ARGUMENTS:
        text = _text(variables, (name,))
        try:
            words += shlex.split(text or "")
        except ValueError as error:
            raise InputError(
                f"{name} of host {variables.host!r}: {error}", where=variables.where(name)
            ) from None
    return tuple(words)
