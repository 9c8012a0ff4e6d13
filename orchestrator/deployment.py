"""The selection: which recipe, in which shape, under which name. The `deployment:` of a play."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeGuard

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from orchestrator.secret import Secret, is_secret_name

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)?")
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")


def seconds(value: Any) -> float:
    """`45m`, `1h30m`, `5s`, `250ms` or a plain number of seconds, as seconds.

    Raises ValueError for anything else.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    text = str(value).strip()
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError("a duration is a number with ms, s, m or h, such as 45m or 1h30m")
    return sum(float(number) * _UNIT_SECONDS[unit or None] for number, unit in parts)


Seconds = Annotated[float, BeforeValidator(seconds), Field(ge=0)]
ArgumentValue = str | int | float | bool | None | list[Any] | dict[str, Any]


class _Selection(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class Parallel(_Selection):
    """Parallel sizes that the user fixes; None leaves one to the strategy."""

    tensor: int | None = Field(default=None, ge=1)
    pipeline: int | None = Field(default=None, ge=1)
    data: int | None = Field(default=None, ge=1)
    decode_context: int | None = Field(default=None, ge=1)
    prefill_context: int | None = Field(default=None, ge=1)


class Pool(_Selection):
    """One pool of prefill/decode: its nodes, and how they work together."""

    nodes: int = Field(ge=1)
    parallelism: Literal["tp", "tep", "dep"] | None = None


class Router(_Selection):
    """The router in front of several endpoints."""

    host: str | None = None
    port: int = Field(default=30000, ge=1, le=65535)
    policy: str | None = None
    image: str | None = None  # one that has vllm-router; else the deployment's own


class Health(_Selection):
    """How long a start may take, how often it is looked at, and whether a completion is asked."""

    timeout: Seconds = 45 * 60.0
    interval: Seconds = 5.0
    completion: bool = True


class Deployment(_Selection):
    """What is to run. Every field is also a flag of `orc plan` and `orc up`."""

    recipe: str
    name: str | None = None
    variant: str = "default"
    hardware: str | None = None
    strategy: str | None = None
    nodes: int | None = Field(default=None, ge=1)
    pools: dict[Literal["prefill", "decode"], Pool | int] | None = None
    replicas: int | Literal["max"] = 1
    features: tuple[str, ...] | None = None
    parallel: Parallel = Parallel()
    layer_partition: tuple[int, ...] | None = None
    args: dict[str, ArgumentValue] = Field(default_factory=dict)
    env: dict[str, str | Secret] = Field(default_factory=dict)
    image: str | None = None
    kv_offload: str | None = None
    instances: int | None = Field(default=None, ge=1)
    kv_store: dict[str, str | int | bool] = Field(default_factory=dict)  # over its configuration
    load_balancing: Literal["hybrid", "internal", "external"] | None = None
    port: int = Field(default=8000, ge=1, le=65535)
    master_port: int | None = Field(default=None, ge=1, le=65535)
    router: Router | None = None
    health: Health = Health()

    @field_validator("name")
    @classmethod
    def _name_is_a_label(cls, name: str | None) -> str | None:
        if name is not None and not _NAME.fullmatch(name):
            raise ValueError(
                "a name is lower-case letters, digits and inner hyphens, 40 at most, "
                "since it becomes part of container names"
            )
        return name

    @field_validator("replicas")
    @classmethod
    def _replicas_are_positive(cls, replicas: int | str) -> int | str:
        if isinstance(replicas, int) and replicas < 1:
            raise ValueError("replicas is 1 or more, or 'max'")
        return replicas

    @field_validator("env", mode="before")
    @classmethod
    def _values_are_text(cls, env: Any) -> Any:
        """YAML reads `1` and `true` as numbers and booleans; an environment holds text."""
        if not isinstance(env, dict):
            return env
        return environment(env)

    def deployment_name(self) -> str:
        """The name given, else one made of the recipe's: `moonshotai/Kimi-K2.6` -> `kimi-k2-6`."""
        if self.name:
            return self.name
        last = re.sub(r"\.(ya?ml|json|md)$", "", self.recipe.rstrip("/").rsplit("/", 1)[-1])
        return re.sub(r"[^a-z0-9]+", "-", last.lower()).strip("-")[:40].strip("-") or "vllm"


def environment(values: Mapping[Any, Any]) -> dict[str, str | Secret]:
    """A mapping out of YAML as an environment; what stands under a secret's name is a Secret.

    A template is left as it is: not it is secret, but what it becomes for a host.
    Raises ValueError for a value that is a list or a mapping.
    """
    texts = {str(name): environment_text(value) for name, value in values.items()}
    return {
        name: Secret(text) if _is_plain(text) and is_secret_name(name) else text
        for name, text in texts.items()
    }


def _is_plain(text: str | Secret) -> TypeGuard[str]:
    return isinstance(text, str) and "{{" not in text and "{%" not in text


def environment_text(value: Any) -> str | Secret:
    """A YAML value as an environment variable's text: `true` for True, no change to text.

    Raises ValueError for a list or a mapping.
    """
    if isinstance(value, str | Secret):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise ValueError("an environment variable is text or a number")
