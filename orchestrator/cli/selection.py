"""The selection as flags: a deployment file, then the flags, then `--set`, the last one wins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator.cli.completion import hardware_names, recipe_names, strategy_names
from orchestrator.deployment import Deployment
from orchestrator.documents import Document, check_text, parse_document, read_document
from orchestrator.errors import InputError, did_you_mean, nearest

FileOption = Annotated[
    Path | None,
    typer.Option(
        "--deployment",
        "-d",
        help="YAML file with a deployment; flags override it.",
        readable=False,
    ),
]
RecipeOption = Annotated[
    str | None,
    typer.Option(
        "--recipe", "-r", help="Recipe: org/name, or a file.", autocompletion=recipe_names
    ),
]
NameOption = Annotated[
    str | None, typer.Option("--name", help="Name of the deployment, its containers and labels.")
]
VariantOption = Annotated[str | None, typer.Option("--variant", help="Variant of the recipe.")]
HardwareOption = Annotated[
    str | None,
    typer.Option(
        "--hardware",
        help="Hardware profile; only hosts of it are used.",
        autocompletion=hardware_names,
    ),
]
StrategyOption = Annotated[
    str | None,
    typer.Option(
        "--strategy",
        "-s",
        help="How to split the model; `orc plan --suggest` lists what fits.",
        autocompletion=strategy_names,
    ),
]
NodesOption = Annotated[int | None, typer.Option("--nodes", "-n", help="Nodes per replica.")]
ReplicasOption = Annotated[
    str | None, typer.Option("--replicas", help="Number of replicas, or max.")
]
FeaturesOption = Annotated[
    str | None,
    typer.Option("--features", help="Comma-separated: exactly these, or +name,-name."),
]
ImageOption = Annotated[str | None, typer.Option("--image", help="Image, by tag or digest.")]
PortOption = Annotated[int | None, typer.Option("--port", help="Port of the API.")]
KvOffloadOption = Annotated[
    str | None, typer.Option("--kv-offload", help="Where KV cache goes beyond GPU memory.")
]
InstancesOption = Annotated[
    int | None, typer.Option("--instances", help="Serving instances in front of a KV store.")
]
LoadBalancingOption = Annotated[
    str | None,
    typer.Option("--load-balancing", help="Data parallel over nodes: hybrid, internal, external."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Any field, such as args.max-model-len=131072 or health.timeout=20m.",
    ),
]


@dataclass(frozen=True, slots=True)
class Selection:
    """What is selected, as the options of a command."""

    deployment: FileOption = None
    recipe: RecipeOption = None
    name: NameOption = None
    variant: VariantOption = None
    hardware: HardwareOption = None
    strategy: StrategyOption = None
    nodes: NodesOption = None
    replicas: ReplicasOption = None
    features: FeaturesOption = None
    image: ImageOption = None
    port: PortOption = None
    kv_offload: KvOffloadOption = None
    instances: InstancesOption = None
    load_balancing: LoadBalancingOption = None
    assignments: SetOption = None

    @property
    def given(self) -> bool:
        """Whether anything was selected at all."""
        return any(getattr(self, field.name) for field in fields(self))

    def read(self) -> Deployment:
        """The deployment that is selected. Raises InputError as `read_deployment` does."""
        return read_deployment(self.deployment, self._flags(), self.assignments)

    def _flags(self) -> dict[str, Any]:
        """The flags as fields of a Deployment; None where a flag was not given."""
        plain = (
            *("recipe", "name", "variant", "hardware", "strategy", "nodes", "image", "port"),
            *("kv_offload", "instances", "load_balancing"),
        )
        count = self.replicas
        features = self.features
        return {
            **{name: getattr(self, name) for name in plain},
            "replicas": count if count in (None, "max") else _number("--replicas", count),
            "features": None if features is None else [f for f in features.split(",") if f],
        }


def read_deployment(
    file: Path | None, flags: Mapping[str, Any], assignments: Sequence[str] | None
) -> Deployment:
    """The deployment file, under the `flags` that were given (not None), under `--set`.

    Raises InputError naming the file's line, or the flag, that is wrong.
    """
    data: dict[str, Any] = {}
    if file is not None:
        document, data = _from_file(file)
        under = ("deployment",) if "deployment" in (document.data or {}) else ()
        document.validate(Deployment, {"recipe": "", **data}, under)
    data |= {name: value for name, value in flags.items() if value is not None}
    for text in [*flags.values(), *(assignments or [])]:
        check_text(str(text), "the command line")
    for assignment in assignments or []:
        _assign(data, assignment)
    if not data.get("recipe"):
        raise InputError(
            "nothing is selected: no recipe was given",
            hint="give --recipe org/name, or --deployment FILE; `orc recipes list` shows them",
        )
    return Document(path="the command line", text="", data=data, lines=False).validate(Deployment)


def _number(flag: str, text: str | None) -> int:
    try:
        return int(text or "")
    except ValueError:
        raise InputError(f"{flag} is a number or max, not {text!r}") from None


def _from_file(file: Path) -> tuple[Document, dict[str, Any]]:
    document = read_document(file)
    data = document.data
    if isinstance(data, dict) and "deployment" in data:
        data = data["deployment"]
    if not isinstance(data, dict):
        raise document.error(
            "a deployment is a mapping", hint="write `deployment:` and its fields under it"
        )
    return document, dict(data)


def _assign(data: dict[str, Any], assignment: str) -> None:
    """Put `a.b=value` into `data`; the value is read as YAML, the key after `args.` is whole."""
    key, equals, text = assignment.partition("=")
    if not equals or not key:
        raise InputError(
            f"--set {assignment!r} is not KEY=VALUE",
            hint="for example --set args.max-model-len=131072",
        )
    field = key.partition(".")[0]
    if field not in Deployment.model_fields:
        raise InputError(
            f"--set {key}: a deployment has no field {field!r}",
            hint=f"an argument of vLLM is args.NAME: --set args.{key}=VALUE"
            if nearest(field, Deployment.model_fields) is None
            else did_you_mean(field, Deployment.model_fields),
        )
    parts = key.split(".", 1) if key.startswith(("args.", "env.")) else key.split(".")
    *parents, last = parts
    for parent in parents:
        inner = data.get(parent)
        inner = dict(inner) if isinstance(inner, dict) else {}
        data[parent] = inner
        data = inner
    data[last] = (
        text if parts[0] == "env" and parents else parse_document(text, f"--set {key}").data
    )
