"""A host's variables by Ansible's precedence, with templates resolved when they are asked for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from orchestrator.deployment import check_variable
from orchestrator.documents import Key
from orchestrator.errors import InputError, OrcError, did_you_mean
from orchestrator.inventory.layers import Layer, Variable, merge_keys
from orchestrator.inventory.lookups import Lookups, MissingValue
from orchestrator.inventory.redaction import (
    Reading,
    conceal,
    is_secret_variable,
    reveal,
)
from orchestrator.inventory.shown import Part, as_shown
from orchestrator.secret import REDACTED, Secret, is_secret_name
from orchestrator.yaml_loader import UntemplatedText, VaultText

ENVIRONMENT = "orc_env"

_TEMPLATE = re.compile(r"\{\{|\{%|\{#")

Decrypt = Callable[[str, str], str]


def is_template(text: str) -> bool:
    return _TEMPLATE.search(text) is not None


class Surroundings(Protocol):
    """What a template can ask for beyond its own host's variables."""

    @property
    def all_hosts(self) -> Mapping[str, object]: ...

    def magic(self, host: str) -> Mapping[str, Callable[[], Any]]: ...

    def host_variables(self, host: str) -> HostVariables: ...


@dataclass(frozen=True, slots=True)
class Resolved:
    """A variable's value, its secret parts as `Secret`; and whether a lookup gave any of it."""

    value: Any
    looked_up: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class HostVariables(Mapping[str, Any]):
    """All variables of one host. Reading one resolves its templates and runs its lookups.

    Raises InputError, with file and line, for a template that cannot be resolved.
    """

    host: str
    written: Mapping[str, Variable]
    layers: tuple[Layer, ...]
    surroundings: Surroundings
    lookups: Lookups
    decrypt: Decrypt
    _resolved: dict[str, Resolved] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        if name == ENVIRONMENT and name in self.written:
            return dict(self.environment())
        resolved = self.resolve(name)
        if resolved.looked_up and is_secret_variable(name):
            return conceal(resolved.value)
        return resolved.value

    def __contains__(self, name: object) -> bool:  # without resolving it
        return name in self.written

    def __iter__(self) -> Iterator[str]:
        return iter(self.written)

    def __len__(self) -> int:
        return len(self.written)

    def __repr__(self) -> str:
        return f"HostVariables({self.host}: {', '.join(self.written)})"

    def where(self, name: str, keys: tuple[Key, ...] = ()) -> str:
        """file:line of the variable that is in force."""
        return self.written[name].layer.place((name, *keys))

    def as_written(self) -> dict[str, Any]:
        """The variables with templates left as they are, and secret values redacted."""
        parts: dict[tuple[str, ...], Variable] = {
            (name,): variable for name, variable in self.written.items() if name != ENVIRONMENT
        }
        if ENVIRONMENT in self.written:
            merged = merge_keys(ENVIRONMENT, self.layers)
            parts |= {(ENVIRONMENT, key): variable for key, variable in merged.items()}
        values = as_shown([Part(path, v.value, v.layer.encrypted) for path, v in parts.items()])
        shown = dict(zip(parts, values, strict=True))
        return {
            name: {path[1]: value for path, value in shown.items() if len(path) > 1}
            if name == ENVIRONMENT
            else shown[name,]
            for name in self.written
        }

    def environment(self) -> LazyEnvironment:
        """`orc_env`, merged key by key; a value is resolved when it is read."""
        return LazyEnvironment(self, merge_keys(ENVIRONMENT, self.layers))

    def secret(self, name: str) -> Secret:
        """A password variable, resolved only when it is revealed."""

        def fetch() -> str:
            value = reveal(self.resolve(name).value, Reading())
            if value is None or str(value) == "":
                raise InputError(f"{name} of host {self.host!r} is empty", where=self.where(name))
            return str(value)

        return Secret(fetch)

    def shown(self, name: str) -> str:
        """A variable's value as it may stand in a message."""
        reading = Reading()
        value = reveal(self.resolve(name).value, reading)
        return REDACTED if reading.secret else repr(value)

    def plain(self, name: str) -> Any:
        """A variable's value with nothing concealed: for what the command line of ssh needs."""
        return reveal(self.resolve(name).value, Reading())

    def resolve(self, name: str, chain: tuple[tuple[str, str], ...] = ()) -> Resolved:
        """The variable `name`. `chain` is what is being resolved: (host, name) each.

        Raises KeyError when there is none, InputError for variables that need each other.
        """
        found = self._resolved.get(name)
        if found is None:
            variable = self.written[name]
            step = (self.host, name)
            if step in chain:
                raise self._circle(variable, name, chain)
            value, looked_up = self._value(
                variable.value, variable.layer, (name,), is_secret_variable(name), (*chain, step)
            )
            found = self._resolved[name] = Resolved(value, looked_up)
        return found

    def _circle(
        self, variable: Variable, name: str, chain: tuple[tuple[str, str], ...]
    ) -> InputError:
        circle = [*chain[chain.index((self.host, name)) :], (self.host, name)]
        several = len({host for host, _ in circle}) > 1
        steps = [f"{host}'s {step}" if several else step for host, step in circle]
        return variable.layer.error(
            f"variables of host {self.host!r} need each other: {' -> '.join(steps)}",
            (name,),
            hint="give one of them a value of its own",
        )

    def resolve_part(self, name: str, key: str, variable: Variable) -> Resolved:
        """One value of the environment `name` (`orc_env`, or one given elsewhere)."""
        keys = (name, key)
        value, looked_up = self._value(
            variable.value, variable.layer, keys, is_secret_name(key), ((self.host, name),)
        )
        return Resolved(value, looked_up)

    def _value(
        self,
        value: Any,
        layer: Layer,
        keys: tuple[Key, ...],
        secret: bool,
        chain: tuple[tuple[str, str], ...],
    ) -> tuple[Any, bool]:
        secret = secret or layer.encrypted
        if isinstance(value, VaultText):
            return Secret(lambda: self.decrypt(value.ciphertext, layer.place(keys))), False
        if isinstance(value, dict):
            parts = {
                key: self._value(
                    part, layer, (*keys, key), secret or is_secret_name(str(key)), chain
                )
                for key, part in value.items()
            }
            looked_up = any(part[1] for part in parts.values())
            return {key: part[0] for key, part in parts.items()}, looked_up
        if isinstance(value, list):
            items = [
                self._value(item, layer, (*keys, position), secret, chain)
                for position, item in enumerate(value)
            ]
            return [item[0] for item in items], any(item[1] for item in items)
        looked_up = False
        if isinstance(value, str) and not isinstance(value, UntemplatedText) and is_template(value):
            value, reading = self._render(value, layer, keys, secret, chain)
            secret, looked_up = secret or reading.secret, reading.looked_up
        return (conceal(value) if secret else value), looked_up

    def _render(
        self,
        text: str,
        layer: Layer,
        keys: tuple[Key, ...],
        secret: bool,
        chain: tuple[tuple[str, str], ...],
    ) -> tuple[Any, Reading]:
        # Jinja2 takes a while to import, and many inventories hold no template.
        from jinja2.exceptions import TemplateSyntaxError, UndefinedError

        from orchestrator.inventory.templating import render, undefined

        reading = Reading()
        name = ".".join(str(key) for key in keys)

        def lookup(kind: str, *terms: str, default: Any = None, **_: Any) -> Any:
            reading.looked_up = True
            try:
                found = [self.lookups.find(kind, str(term), layer.directory) for term in terms]
            except MissingValue as error:
                return undefined(str(error)) if default is None else default
            return ",".join(found)

        def variable(wanted: str) -> Any:
            return self._ask(wanted, reading, chain)

        try:
            return render(text, variable, {"lookup": lookup}), reading
        except InputError as error:
            if error.where is None:
                raise layer.error(
                    f"{name}: {error.what}", keys, why=error.why, hint=error.hint
                ) from None
            raise
        except OrcError:
            raise
        except UndefinedError as error:
            raise layer.error(
                f"{name} of host {self.host!r}: {error.message}",
                keys,
                hint=self._hint(str(error.message)),
            ) from None
        except TemplateSyntaxError as error:
            raise layer.error(f"{name} is no template: {error.message}", keys) from None
        except Exception as error:
            # What a filter says of a secret or looked-up value may quote it.
            quoted = "" if secret or reading.secret or reading.looked_up else f": {error}"
            raise layer.error(
                f"{name} of host {self.host!r} cannot be computed: {type(error).__name__}{quoted}",
                keys,
            ) from None

    def _hint(self, message: str) -> str:
        environment = re.search(r"environment variable (\S+)", message)
        if environment:
            return f"export {environment[1]}=... and run it again"
        missing = re.match(r"'(\w+)' is undefined", message)
        if missing:
            return did_you_mean(missing[1], self.written)
        return "define it, or give a default: {{ name | default('value') }}"

    def _ask(self, name: str, reading: Reading, chain: tuple[tuple[str, str], ...]) -> Any:
        """The value that a template sees under `name`. Raises KeyError when there is none."""
        if name in self.written:
            if name == ENVIRONMENT:
                if (self.host, name) in chain:
                    raise self._circle(self.written[name], name, chain)
                return _RevealedEnvironment(self.environment(), reading)
            resolved = self.resolve(name, chain)
            reading.looked_up = reading.looked_up or resolved.looked_up
            return reveal(resolved.value, reading)
        if name == "hostvars":
            return _HostVars(self, reading, chain)
        return self.surroundings.magic(self.host)[name]()


class _HostVars(Mapping[str, Any]):
    """`hostvars['node01'].name` in a template."""

    def __init__(
        self, variables: HostVariables, reading: Reading, chain: tuple[tuple[str, str], ...]
    ) -> None:
        self._variables, self._reading, self._chain = variables, reading, chain

    def __getitem__(self, host: str) -> Any:
        if host not in self._variables.surroundings.all_hosts:
            from orchestrator.inventory.templating import undefined

            return undefined(f"there is no host {host!r} in hostvars")
        variables = self._variables.surroundings.host_variables(host)
        return _OneHostVars(variables, self._reading, self._chain)

    def __iter__(self) -> Iterator[str]:
        return iter(self._variables.surroundings.all_hosts)

    def __len__(self) -> int:
        return len(self._variables.surroundings.all_hosts)


class _OneHostVars(_HostVars):
    def __getitem__(self, name: str) -> Any:
        return self._variables._ask(name, self._reading, self._chain)

    def __contains__(self, name: object) -> bool:  # without resolving it
        return name in self._variables

    def __iter__(self) -> Iterator[str]:
        return iter(self._variables)

    def __len__(self) -> int:
        return len(self._variables)


class LazyEnvironment(Mapping[str, str | Secret]):
    """An environment of a host: a value is resolved, and its lookups run, when it is read."""

    def __init__(
        self,
        variables: HostVariables,
        written: Mapping[str, Variable],
        name: str = ENVIRONMENT,
    ) -> None:
        self._variables, self._written, self._name = variables, written, name
        self._values: dict[str, str | Secret] = {}

    def __getitem__(self, key: str) -> str | Secret:
        if key not in self._values:
            self._values[key] = self._resolve(key, self._written[key])
        return self._values[key]

    def __contains__(self, key: object) -> bool:  # without resolving it
        return key in self._written

    def __iter__(self) -> Iterator[str]:
        return iter(self._written)

    def __len__(self) -> int:
        return len(self._written)

    def __eq__(self, other: object) -> bool:
        return dict(self) == dict(other) if isinstance(other, Mapping) else NotImplemented

    def __repr__(self) -> str:
        return f"LazyEnvironment({', '.join(self._written)})"

    def _resolve(self, key: str, variable: Variable) -> str | Secret:
        resolved = self._variables.resolve_part(self._name, key, variable)
        value = resolved.value
        text = value.at_hand if isinstance(value, Secret) else value
        try:
            check_variable(key, text if isinstance(text, str) else "")
        except ValueError as error:
            raise variable.layer.error(f"{self._name}: {error}", (self._name, key)) from None
        value = conceal(value) if resolved.looked_up else value
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str | Secret | int | float):
            return value if isinstance(value, str | Secret) else str(value)
        raise variable.layer.error(
            f"{self._name}.{key}: an environment variable is text or a number, "
            f"not {type(value).__name__}",
            (self._name, key),
        )


class _RevealedEnvironment(Mapping[str, str]):
    """`orc_env` as a template sees it."""

    def __init__(self, environment: LazyEnvironment, reading: Reading) -> None:
        self._environment, self._reading = environment, reading

    def __getitem__(self, key: str) -> str:
        return str(reveal(self._environment[key], self._reading))

    def __contains__(self, key: object) -> bool:  # without resolving it
        return key in self._environment

    def __iter__(self) -> Iterator[str]:
        return iter(self._environment)

    def __len__(self) -> int:
        return len(self._environment)
