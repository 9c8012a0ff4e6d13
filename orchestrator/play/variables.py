"""What the templates of a task see on one host, by Ansible's precedence."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from orchestrator.errors import InputError, OrcError, did_you_mean
from orchestrator.inventory.lookups import Lookups, MissingValue
from orchestrator.inventory.redaction import Reading, conceal, is_secret_variable, reveal
from orchestrator.play.templates import Condition, filled
from orchestrator.secret import REDACTED, Secret, is_secret_name

_LOOKUPS = Lookups()
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0", "")


@dataclass(frozen=True, slots=True)
class Variables:
    """The variables of one host at one task. From the strongest down: what orc itself gives, the
    command line's, what tasks registered, the task's and its blocks', the play's, the inventory's.

    What stands in files and on the command line may hold templates; what came from a host is
    never read as one. A secret stays a `Secret`, which no text takes in.
    """

    where: str  # file:line, for messages
    directory: Path = Path()  # where lookups of files start
    given: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    registered: Mapping[str, Any] = field(default_factory=dict)
    written: Sequence[Mapping[str, Any]] = ()
    inventory: Mapping[str, Any] = field(default_factory=dict)

    def with_registered(self, name: str | None, result: Mapping[str, Any]) -> Variables:
        """The same after a task registered `result`."""
        return self if name is None else replace(self, registered={**self.registered, name: result})

    def fill(self, value: Any) -> Any:
        """`value` with every template in it filled in.

        Raises InputError for a template that cannot be, and for a text that would hold a secret.
        """
        return filled(value, lambda text: self._render(text, (), None))

    def fill_revealed(self, value: Any) -> Any:
        """The same with secrets revealed; a text that one went into is a `Secret` as a whole."""

        def one(text: str) -> Any:
            reading = Reading()
            result = self._render(text, (), reading)
            return conceal(result) if reading.secret else result

        return filled(value, one)

    def fill_file(self, text: str) -> str | Secret:
        """The template file `text` filled in, secrets revealed; a `Secret` if there were any."""
        reading = Reading()
        result = str(self._render(text, (), reading, is_file=True))
        return Secret(result) if reading.secret else result

    def test(self, conditions: Sequence[Condition], key: str = "when") -> bool:
        """Whether all `conditions` hold. Raises InputError for one that cannot be answered."""
        return all(self._holds(condition, key) for condition in conditions)

    def _holds(self, condition: Condition, key: str) -> bool:
        if isinstance(condition, bool):
            return condition
        try:
            value = self._render(f"{{{{ {condition} }}}}", (), None)
        except InputError as error:
            raise InputError(f"{key}: {error.what}", where=error.where, hint=error.hint) from None
        if isinstance(value, str):
            if value.lower() in _TRUE + _FALSE:
                return value.lower() in _TRUE
            raise InputError(
                f"{key}: {condition!r} is the text {value[:40]!r}, which is neither true nor false",
                where=self.where,
                hint="compare it, such as `name == 'value'`",
            )
        return bool(value)

    def lookup(self, name: str, chain: tuple[str, ...] = (), reading: Reading | None = None) -> Any:
        """The variable `name`; secrets revealed when there is a `reading` to remember it.

        Raises KeyError when there is none, InputError for variables that need each other.
        """
        if name in self.given:
            return self.given[name]()
        value: Any
        if name in self.extra:
            value = self._written(name, self.extra[name], chain, reading)
        elif name in self.registered:
            value = self.registered[name]
        else:
            for layer in self.written:
                if name in layer:
                    value = self._written(name, layer[name], chain, reading)
                    break
            else:
                value = self.inventory[name]
        return value if reading is None else reveal(value, reading)

    def _written(
        self, name: str, value: Any, chain: tuple[str, ...], reading: Reading | None
    ) -> Any:
        if name in chain:
            circle = " -> ".join([*chain[chain.index(name) :], name])
            raise InputError(f"variables need each other: {circle}", where=self.where)
        value = filled(value, lambda text: self._render(text, (*chain, name), reading))
        return conceal(value) if is_secret_variable(name) else value

    def _render(
        self, text: str, chain: tuple[str, ...], reading: Reading | None, *, is_file: bool = False
    ) -> Any:
        from jinja2 import UndefinedError

        from orchestrator.inventory.templating import render

        secret = False

        def variable(name: str) -> Any:
            nonlocal secret
            value = self.lookup(name, chain, reading)
            secret = secret or _holds_secret(value)
            return value

        def find(kind: str, *terms: str, default: Any = None, **_: Any) -> Any:
            nonlocal secret
            value = self._find(kind, [str(term) for term in terms], default)
            secret = secret or _holds_secret(value)
            return value if reading is None else reveal(value, reading)

        try:
            value = render(text, variable, {"lookup": find}, is_file=is_file)
        except InputError as error:
            if error.where is not None:
                raise
            raise InputError(
                f"{_shown(text)}: {error.what}", where=self.where, why=error.why, hint=error.hint
            ) from None
        except OrcError:
            raise
        except UndefinedError as error:
            raise InputError(
                f"{_shown(text)}: {error.message}",
                where=self.where,
                hint=self._hint(str(error.message)),
            ) from None
        except Exception as error:
            # What a filter says of a value may quote it.
            said = type(error).__name__ if reading and reading.secret else str(error)
            raise InputError(
                f"{_shown(text)} cannot be computed: {said}", where=self.where
            ) from None
        if secret and isinstance(value, str) and REDACTED in value:
            raise InputError(
                f"{_shown(text)} would put a secret into a text",
                where=self.where,
                hint="secrets are taken by write_env, by the content of template, and by `env:`",
            )
        return value

    def _find(self, kind: str, terms: Sequence[str], default: Any) -> Any:
        """`lookup('env', 'NAME')` and the others that inventories have."""
        from orchestrator.inventory.templating import undefined

        found = []
        for term in terms:
            try:
                found.append(_LOOKUPS.find(kind, term, self.directory))
            except MissingValue as error:
                return undefined(str(error)) if default is None else default
        text = ",".join(found)
        return Secret(text) if any(map(is_secret_name, terms)) else text

    def _hint(self, message: str) -> str:
        missing = re.match(r"'(\w+)' is undefined", message)
        if missing is None:
            return "define it, or give a default: {{ name | default('value') }}"
        layers = (self.given, self.extra, self.registered, *self.written, self.inventory)
        hint = did_you_mean(missing[1], {name for layer in layers for name in layer})
        if hint.startswith("did you mean"):
            return hint
        return "give it in the play's `vars:`, with -e, or in the inventory"


class HostVars(Mapping[str, Mapping[str, Any]]):
    """`hostvars['node01'].name`: the inventory's variables of any host, and what it registered."""

    def __init__(
        self, hosts: Mapping[str, Any], registered: Mapping[str, Mapping[str, Any]]
    ) -> None:
        self._hosts, self._registered = hosts, registered

    def __getitem__(self, host: str) -> Mapping[str, Any]:
        return _Both(self._registered.get(host, {}), self._hosts[host].variables)

    def __iter__(self) -> Iterator[str]:
        return iter(self._hosts)

    def __len__(self) -> int:
        return len(self._hosts)


class _Both(Mapping[str, Any]):
    """Two mappings as one; nothing is read, and no lookup run, before it is asked for."""

    def __init__(self, first: Mapping[str, Any], second: Mapping[str, Any]) -> None:
        self._first, self._second = first, second

    def __getitem__(self, name: str) -> Any:
        return self._first[name] if name in self._first else self._second[name]

    def __contains__(self, name: object) -> bool:
        return name in self._first or name in self._second

    def __iter__(self) -> Iterator[str]:
        return iter({**dict.fromkeys(self._first), **dict.fromkeys(self._second)})

    def __len__(self) -> int:
        return len(set(self._first) | set(self._second))


def _holds_secret(value: Any) -> bool:
    if isinstance(value, Secret):
        return True
    if isinstance(value, dict):
        return any(map(_holds_secret, value.values()))
    return isinstance(value, list) and any(map(_holds_secret, value))


def _shown(text: str) -> str:
    """A template as a message can hold it; of a file only that it is one."""
    return repr(text) if len(text) <= 200 and "\n" not in text else "the template"
