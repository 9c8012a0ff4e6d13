"""What every part of the public schema is made of: frozen models, arguments, environments."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict

from orchestrator.deployment import environment_text
from orchestrator.secret import Secret


def _words(value: Any) -> Any:
    """A list of arguments, its numbers as text; empty words are dropped as the site does."""
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise ValueError("arguments are a list of words, such as ['--max-num-seqs', '512']")
    words: list[str] = []
    for word in value:
        if isinstance(word, bool) or not isinstance(word, str | int | float):
            raise ValueError(f"an argument is a word or a number, not {word!r}; quote it")
        if str(word):
            words += _split_flag(str(word))
    return tuple(words)


def _split_flag(word: str) -> list[str]:
    """`--max-model-len auto` written as one word is a flag and its value."""
    flag, space, value = word.partition(" ")
    if flag.startswith("--") and space and "{" not in flag and "=" not in flag:
        return [flag, value.strip()]
    return [word]


def _environment(value: Any) -> Any:
    """An environment, numbers as text (YAML reads `1` as a number)."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError("an environment is a mapping of names to values")
    texts = {str(name): environment_text(item) for name, item in value.items()}
    return {name: str(text) if isinstance(text, Secret) else text for name, text in texts.items()}


def _mapping(value: Any) -> Any:
    return {} if value is None else value


Value = TypeVar("Value")
OptionalMapping = Annotated[Value, BeforeValidator(_mapping)]  # null stands for an empty one
Arguments = Annotated[tuple[str, ...], BeforeValidator(_words)]
Environment = Annotated[dict[str, str], BeforeValidator(_environment)]
Support = Literal["verified", "supported", "unsupported"]
Architecture = Literal["dense", "moe"]
PoolMode = Literal["tp", "tep", "dep"]
Frontend = Literal["python", "rust"]


class Part(BaseModel):
    """A part of a recipe: frozen, and no key that is not in the schema."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())
