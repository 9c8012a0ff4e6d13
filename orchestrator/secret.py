"""Secret values: shown nowhere, revealed in one place.

A `Secret` prints, formats and serialises as `<secret>`, and does not pickle. The value leaves
it only through `reveal()`, called where bytes go to a node's stdin and nowhere else.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable
from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

REDACTED = "<secret>"

# Names whose values are secret even when somebody wrote them in plain text (vllm-facts:
# HF_TOKEN and VLLM_API_KEY must never reach a command line or a log).
_SECRET_NAME = re.compile(
    r"(^|_)(TOKEN|SECRET|PASS|PASSWD|PASSPHRASE|PAT|CREDENTIALS?"
    r"|(API|ACCESS|SECRET|PRIVATE|OPENAI)_?KEYS?)$|PASSWORD$",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")  # hfToken, apiKey

# `http://user:password@proxy:3128`
_WITH_LOGIN = re.compile(r"://[^/@\s:]*:[^/@\s]+@")


class Secret:
    """A string that redacts itself everywhere except in `reveal()`.

    A value that must be fetched or decrypted first (a vault, a password store) is given as a
    function, which is called when the value is first needed and not before.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str | Callable[[], str]) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself. Call it only where the value is handed to the node or the service.

        Raises what the function raises that fetches the value.
        """
        if callable(self._value):
            self._value = self._value()
        return self._value

    @property
    def at_hand(self) -> str:
        """The value, to be checked; empty where it would have to be fetched first."""
        return "" if callable(self._value) else self._value

    def digest(self, before: str) -> str:
        """SHA-256 of `before` and the value: to compare it with one that nobody may see."""
        return hashlib.sha256(f"{before}{self.reveal()}".encode()).hexdigest()

    def __repr__(self) -> str:
        return REDACTED

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(REDACTED, spec)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Secret):
            return hmac.compare_digest(self.reveal().encode(), other.reveal().encode())
        return NotImplemented

    def __hash__(self) -> int:
        return hash((Secret, self.reveal()))

    def __bool__(self) -> bool:
        return bool(self.reveal())

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Secret:
        return self

    def __reduce__(self) -> str:
        raise TypeError("a Secret cannot be pickled")

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Any], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            lambda value: value if isinstance(value, Secret) else Secret(str(value)),
            serialization=core_schema.plain_serializer_function_ser_schema(str),
        )


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name holds a secret by custom (HF_TOKEN, X_API_KEY, ...)."""
    return _SECRET_NAME.search(_CAMEL.sub("_", name)) is not None


def holds_login(text: str) -> bool:
    """Whether a text holds a URL with a password in it, whatever its name."""
    return _WITH_LOGIN.search(text) is not None


def redact(text: str, secrets: list[Secret]) -> str:
    """`text` with every secret's value replaced: for output that came back from a host."""
    for secret in secrets:
        value = secret.reveal()
        if len(value) >= 4:  # a shorter one would redact half of an ordinary log
            text = text.replace(value, REDACTED)
    return text
