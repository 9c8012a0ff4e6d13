"""What may stand in a playbook: the keys of plays, blocks and tasks, and the form of each value."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from orchestrator.deployment import Seconds, seconds
from orchestrator.play.templates import check_syntax


def _listed(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


def _one_or_list(one: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [one, {"type": "array", "items": one}]}


def _tags(value: Any) -> Any:
    """`a, b` and `[a, b]`."""
    if isinstance(value, str):
        return [tag.strip() for tag in value.split(",") if tag.strip()]
    return [str(tag) for tag in _listed(value)]


def _variable_name(name: str) -> str:
    if not name.isidentifier():
        raise ValueError(f"{name!r} cannot be the name of a variable: letters, digits, underscores")
    return name


def _is_template(value: object) -> bool:
    return isinstance(value, str) and "{{" in value


def _bare(condition: bool | str) -> bool | str:
    if _is_template(condition):
        raise ValueError(
            f"{condition!r}: a condition is a bare expression, so leave the braces out"
        )
    wrong = check_syntax(f"{{{{ {condition} }}}}")
    if wrong:
        raise ValueError(f"{condition!r} is no expression: {wrong}")
    return condition


def _duration(value: Any) -> Any:
    return value if _is_template(value) else seconds(value)


def _batch_size(value: int | str) -> int | str:
    if isinstance(value, bool):
        raise ValueError("a number, a percentage such as 30%, or a list of them")
    if isinstance(value, str) and not _is_template(value):
        number = value.strip().removesuffix("%")
        if not number.replace(".", "", 1).isdigit():
            raise ValueError(f"{value!r} is no number or percentage such as 30%")
    return value


Name = Annotated[str, AfterValidator(_variable_name)]
_TEXT = {"type": ["string", "number"]}
_CONDITION = {"type": ["string", "boolean"]}
Conditions = Annotated[
    list[Annotated[bool | str, AfterValidator(_bare)]],
    BeforeValidator(_listed),
    WithJsonSchema({**_one_or_list(_CONDITION), "description": "bare Jinja2 expressions"}),
]
Tags = Annotated[list[str], BeforeValidator(_tags), WithJsonSchema(_one_or_list(_TEXT))]
Variables = dict[Name, Any]
Duration = Annotated[Seconds | str, BeforeValidator(_duration), WithJsonSchema(_TEXT)]
BatchSize = Annotated[int | str, AfterValidator(_batch_size)]
TaskData = dict[str, Any]


class _Keys(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SharedKeys(_Keys):
    """What tasks, blocks and includes all may have; a block's counts for each of its tasks."""

    name: str | None = None
    when: Conditions = []
    tags: Tags = []
    vars: Variables = {}
    ignore_errors: bool | str | None = None
    any_errors_fatal: bool | None = None


class TaskKeys(SharedKeys):
    """The keys of a task beside its action."""

    register_: Annotated[Name | None, Field(alias="register")] = None
    until: Conditions = []
    retries: int | str | None = None
    delay: Duration = 5.0
    timeout: Duration | None = None
    failed_when: Conditions | None = None
    changed_when: Conditions | None = None


class BlockKeys(SharedKeys):
    """A block."""

    block: list[TaskData]
    rescue: list[TaskData] = []
    always: list[TaskData] = []


class IncludeKeys(SharedKeys):
    """Tasks of another file, which lies beside this one. It is read when this one is read."""

    include_tasks: str


class HooksKeys(_Keys):
    """Tasks around each replica, or around each host where there is no deployment."""

    before: list[TaskData] = []
    after: list[TaskData] = []


class PlayKeys(_Keys):
    """A play."""

    name: str | None = None
    hosts: str = "all"
    deployment: dict[str, Any] | None = None
    serial: Annotated[
        list[BatchSize], BeforeValidator(_listed), WithJsonSchema(_one_or_list(_TEXT))
    ] = []
    max_fail_percentage: Annotated[float, Field(ge=0, le=100)] | str | None = None
    any_errors_fatal: bool | str = False
    vars: Variables = {}
    tags: Tags = []
    hooks: HooksKeys = HooksKeys()
    tasks: list[TaskData]


def key_names(model: type[BaseModel]) -> list[str]:
    """The keys of `model` as they are written in a file."""
    return [field.alias or name for name, field in model.model_fields.items()]
