"""The selection: which recipe, in which shape, under which name. The `deployment:` of a play."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeGuard

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from orchestrator.secret import Secret, holds_login, is_secret_name

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)?")
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")
_IMAGE = re.compile(r"[\w\[][\w./:\[\]-]*(@\w+:[0-9a-fA-F]+)?", re.ASCII)
_ARGUMENT = re.compile(r"-{0,2}[A-Za-z][\w.-]*", re.ASCII)
_LONGEST = 366 * 24 * 3600.0  # seconds; more is a slip, and overflows the clocks it is given to
_MOST = 10_000  # nodes, replicas, instances


def seconds(value: Any) -> float:
    """`45m`, `1h30m`, `5s`, `250ms` or a plain number of seconds, as seconds.

    Raises ValueError for anything else.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _bounded(value)
    text = str(value).strip()
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError("a duration is a number with ms, s, m or h, such as 45m or 1h30m")
    return _bounded(sum(float(number) * _UNIT_SECONDS[unit or None] for number, unit in parts))


def _bounded(value: float) -> float:
    if not 0 <= value <= _LONGEST:  # neither is a NaN
        raise ValueError("a duration is from 0 up to a year")
    return float(value)


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

    nodes: int = Field(ge=1, le=_MOST)
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
    nodes: int | None = Field(default=None, ge=1, le=_MOST)
    pools: dict[Literal["prefill", "decode"], Pool | int] | None = None
    replicas: int | Literal["max"] = 1
    features: tuple[str, ...] | None = None
    parallel: Parallel = Parallel()
    layer_partition: tuple[int, ...] | None = None
    args: dict[str, ArgumentValue] = Field(default_factory=dict)
    env: dict[str, str | Secret] = Field(default_factory=dict)
    image: str | None = None
    kv_offload: str | None = None
    instances: int | None = Field(default=None, ge=1, le=_MOST)
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

    @field_validator("nodes", "replicas", "instances", "port", "master_port", mode="before")
    @classmethod
    def _truth_is_no_number(cls, value: Any) -> Any:
        if isinstance(value, bool):
            raise ValueError("a number")
        return value

    @field_validator("image")
    @classmethod
    def _image_is_a_reference(cls, image: str | None) -> str | None:
        if image is not None and not _IMAGE.fullmatch(image):
            raise ValueError(
                "an image is registry/repository:tag, or @sha256:... in the tag's place"
            )
        return image

    @field_validator("args")
    @classmethod
    def _arguments_are_flags(cls, args: dict[str, ArgumentValue]) -> dict[str, ArgumentValue]:
        for name, value in args.items():
            if not _ARGUMENT.fullmatch(name):
                raise ValueError(f"{name!r} is not the name of an argument, such as max-model-len")
            flag = secret_argument(name, value)
            if flag:
                raise ValueError(
                    f"{flag} would put a secret on a command line, where every user of the host "
                    f"can read it; give it in the environment: "
                    f"env.{SECRET_VARIABLES.get(flag, 'NAME')}, or orc_env"
                )
            if "\0" in str(value):
                raise ValueError(f"the value of {name} holds a zero byte")
        return args

    @field_validator("replicas")
    @classmethod
    def _replicas_are_positive(cls, replicas: int | str) -> int | str:
        if isinstance(replicas, int) and not 1 <= replicas <= _MOST:
            raise ValueError(f"replicas is 1 to {_MOST}, or 'max'")
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
    Raises ValueError for a value that is a list or a mapping, and as `check_variable` does.
    """
    texts = {str(name): environment_text(value) for name, value in values.items()}
    for name, text in texts.items():
        check_variable(name, text if _is_plain(text) else "")
    return {
        name: Secret(text)
        if _is_plain(text) and (is_secret_name(name) or holds_login(text))
        else text
        for name, text in texts.items()
    }


SECRET_VARIABLES = {"--api-key": "VLLM_API_KEY", "--hf-token": "HF_TOKEN"}


def secret_argument(name: str, value: Any) -> str | None:
    """The flag or key that has a secret's name, in an argument or deep in its JSON."""
    bare = name.lstrip("-").partition("=")[0].replace("-", "_")
    if is_secret_name(bare.rpartition(".")[2]):
        return f"--{bare.replace('_', '-')}"
    inner: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        inner = [(str(key), part) for key, part in value.items()]
    elif isinstance(value, list):
        inner = [
            (part if isinstance(part, str) and part[:1] == "-" else "", part) for part in value
        ]
    elif isinstance(value, str) and value[:2] == "--":
        inner = [(value, None)]
    found = (secret_argument(key, part) for key, part in inner if part is not name)
    return next((flag for flag in found if flag), None)


def check_variable(name: str, text: str) -> None:
    """Raises ValueError, without the value, for what docker's environment files cannot hold:
    one NAME=value a line, no quoting."""
    if not name or name[0] == "#" or any(c in "=\0" or c.isspace() for c in name):
        raise ValueError(f"{name!r} cannot be the name of an environment variable")
    if any(c in "\n\r\0" for c in text):
        raise ValueError(
            f"the value of {name} holds a line break or a zero byte, which docker's environment "
            "files cannot; encode it (base64, JSON on one line), or mount a file instead"
        )


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
