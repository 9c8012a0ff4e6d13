"""The selection: which recipe, in which shape, under which name. The `deployment:` of a play."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeGuard

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    field_validator,
)

from orchestrator.image_reference import ImageReference
from orchestrator.secret import Secret, holds_login, is_secret_name

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)?")
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")
_ARGUMENT = re.compile(r"-{0,2}[A-Za-z][\w-]*(\.[\w-]+)*", re.ASCII)
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


Seconds = Annotated[
    float,
    BeforeValidator(seconds),
    Field(ge=0),
    WithJsonSchema({"type": ["number", "string"], "description": "seconds, or such as 45m"}),
]


def _some(value: float) -> float:
    if value == 0:
        raise ValueError("more than 0: nothing is healthy in no time")
    return value


SomeTime = Annotated[Seconds, AfterValidator(_some)]
# `--policy` of vllm-router 0.1.17.
RouterPolicy = Literal[
    "random",
    "round_robin",
    "cache_aware",
    "kv_aware",
    "power_of_two",
    "consistent_hash",
    "sticky_least_loaded",
]
ArgumentValue = str | int | float | bool | None | list[Any] | dict[str, Any]


class _Selection(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


def _size(meaning: str) -> Any:
    return Field(default=None, ge=1, description=meaning)


class Parallel(_Selection):
    """Parallel sizes that the user fixes; None leaves one to the strategy."""

    tensor: int | None = _size("tensor parallel size")
    pipeline: int | None = _size("pipeline stages")
    data: int | None = _size("data parallel size")
    decode_context: int | None = _size("decode context parallel size")
    prefill_context: int | None = _size("prefill context parallel size")


class Pool(_Selection):
    """One pool of prefill/decode: its nodes, and how they work together."""

    nodes: int = Field(ge=1, le=_MOST)
    parallelism: Literal["tp", "tep", "dep"] | None = None


class Router(_Selection):
    """The router in front of several endpoints."""

    host: str | None = Field(default=None, description="where it runs; else the first host")
    port: int = Field(default=30000, ge=1, le=65535, description="of its API")
    policy: RouterPolicy | None = Field(
        default=None, description="of vllm-router, such as cache_aware"
    )
    image: ImageReference | None = Field(
        default=None, description="one that has vllm-router; else the deployment's own"
    )


class Health(_Selection):
    """How long a start may take, how often it is looked at, and whether a completion is asked."""

    timeout: SomeTime = Field(
        default=45 * 60.0, description="how long a start may take: 45m, 1h30m"
    )
    interval: SomeTime = Field(default=5.0, description="between two looks at an endpoint")
    completion: bool = Field(default=True, description="whether healthy means that one is answered")


class Deployment(_Selection):
    """What is to run. Every field is also a flag of `orc plan` and `orc up`."""

    recipe: str = Field(description="`org/name` of the catalog, or a file: .yaml, .json, .md")
    name: str | None = Field(
        default=None, description="names the containers and labels; else made of the recipe's name"
    )
    variant: str = Field(default="default", description="a variant of the recipe")
    hardware: str | None = Field(
        default=None, description="use only hosts of this profile; else the hosts' own"
    )
    strategy: str | None = Field(
        default=None, description="how to split the model; else what the recipe recommends"
    )
    nodes: int | None = Field(
        default=None,
        ge=1,
        le=_MOST,
        description="hosts per replica; else one, or for a multi-node strategy all shared out",
    )
    pools: dict[Literal["prefill", "decode"], Pool | int] | None = Field(
        default=None, description="pd_cluster: nodes of each pool, or `{nodes, parallelism}`"
    )
    replicas: int | Literal["max"] = Field(
        default=1, description="how many; `max`: as many as fit the hosts"
    )
    features: tuple[str, ...] | None = Field(
        default=None, description="exactly these, or `+name`, `-name` against the defaults"
    )
    parallel: Parallel = Field(default=Parallel(), description="sizes that are fixed")
    layer_partition: tuple[int, ...] | None = Field(
        default=None, description="layers of each pipeline stage; else as even as can be"
    )
    args: dict[str, ArgumentValue] = Field(
        default_factory=dict, description="any arguments of `vllm serve`, over the recipe's"
    )
    env: dict[str, str | Secret] = Field(
        default_factory=dict, description="environment, over the recipe's and `orc_env`"
    )
    image: ImageReference | None = Field(
        default=None, description="by tag or digest; else the recipe's"
    )
    kv_offload: str | None = Field(
        default=None, description="where KV cache goes beyond GPU memory; or a KV store"
    )
    instances: int | None = Field(
        default=None, ge=1, le=_MOST, description="serving instances in front of a KV store"
    )
    kv_store: dict[str, str | int | bool] = Field(
        default_factory=dict, description="over the KV store's own configuration"
    )
    load_balancing: Literal["hybrid", "internal", "external"] | None = Field(
        default=None, description="data parallel over nodes: hybrid, internal or external"
    )
    port: int = Field(default=8000, ge=1, le=65535, description="of the API")
    master_port: int | None = Field(
        default=None,
        ge=1,
        le=65535,
        description="where the ranks of a replica meet; else a free one",
    )
    check_memory: bool = Field(
        default=True, description="refuse weights that cannot fit the GPUs; false: a note says so"
    )
    router: Router | None = Field(
        default=None,
        description="a router in front of the endpoints: `{}` is one with all defaults",
    )
    health: Health = Field(default=Health(), description="when a replica counts as healthy")

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
            if word := next(filter(_looks_like_a_flag, _words_of(value)), None):
                raise ValueError(
                    f"the value of {name} is {word!r}, which vLLM would read as another argument; "
                    "give each argument under its own name"
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
        there = text.at_hand if isinstance(text, Secret) else text
        check_variable(name, there if _is_plain(there) else "")
    return {
        name: Secret(text)
        if _is_plain(text) and (is_secret_name(name) or holds_login(text))
        else text
        for name, text in texts.items()
    }


def _words_of(value: ArgumentValue) -> list[str]:
    """The words that an argument's value becomes on a command line, JSON aside."""
    if isinstance(value, list):
        plain = not any(isinstance(item, list | dict) for item in value)
        return [str(item) for item in value] if plain else []
    return [value] if isinstance(value, str) else []


def _looks_like_a_flag(word: str) -> bool:
    """`-1` and `-0.5` are values."""
    return word[:1] == "-" and len(word) > 1 and not re.fullmatch(r"-\d*\.?\d+", word)


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


# Docker reads an environment file through a buffer of 64 KiB, which holds the line's end as well.
LONGEST_VARIABLE = (64 << 10) - 1


def too_long(name: str, text: str) -> str | None:
    """What is to be said of a variable that is longer than docker's environment files can hold."""
    size = len(f"{name}={text}".encode(errors="surrogatepass"))
    if size <= LONGEST_VARIABLE:
        return None
    return (
        f"the value of {name} is too long: {size} bytes with its name, at most {LONGEST_VARIABLE}"
    )


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
    if long := too_long(name, text):
        raise ValueError(f"{long} in docker's environment files; mount a file instead")


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
