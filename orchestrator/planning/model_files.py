"""A model's files on the hosts: where to look for them, and the shape that they tell. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from pathlib import PurePosixPath

from orchestrator.deployment import Deployment
from orchestrator.errors import InputError, PlanError
from orchestrator.facts.host_facts import HostFacts
from orchestrator.inventory.host import HostSettings
from orchestrator.inventory.load import Inventory
from orchestrator.planning.hosts import choose_hardware
from orchestrator.recipes.catalog import Catalog
from orchestrator.recipes.resolved import ModelShape, ResolvedRecipe
from orchestrator.recipes.shape import overlay, shape_of_text

HF_CACHE = "/root/.cache/huggingface"  # where the public images look for weights


def volumes(settings: HostSettings) -> tuple[str, ...]:
    """What is mounted into an engine's container: its Hugging Face cache, and `orc_volumes`."""
    cache = (f"{settings.hf_home}:{HF_CACHE}",) if settings.hf_home else ()
    return (*cache, *settings.volumes)


def model_places(inventory: Inventory, catalog: Catalog, deployment: Deployment) -> dict[str, str]:
    """By host the directory where the deployment's model may lie, as far as a mount leads there.

    Empty for a selection that cannot be resolved: the plan tells why.
    """
    hosts = list(inventory.hosts.values())
    try:
        hardware = choose_hardware(hosts, deployment.hardware)
        model = catalog.resolve(deployment, hardware, nodes=deployment.nodes).model
    except InputError:
        return {}
    places = {host.name: model_place(model, host.settings) for host in hosts}
    return {host: place for host, place in places.items() if place}


def model_place(model: str, settings: HostSettings) -> str | None:
    """Where on the host `model` may lie: a directory in the container, or in its hub cache."""
    inside = model
    if not model.startswith("/"):
        inside = f"{_hub(settings.env)}/models--{model.replace('/', '--')}"
    return _host_path(PurePosixPath(inside), volumes(settings))


def _hub(env: Mapping[str, object]) -> str:
    """The hub cache in the container, by huggingface_hub's own order of variables."""
    if cache := env.get("HF_HUB_CACHE"):
        return str(cache)
    return f"{env.get('HF_HOME') or HF_CACHE}/hub"


def _host_path(inside: PurePosixPath, mounts: Iterable[str]) -> str | None:
    """The path on the host of one in the container, by the mount that is nearest above it."""
    found: tuple[int, str] | None = None
    for mount in mounts:
        source, _, rest = mount.partition(":")
        target = PurePosixPath(rest.partition(":")[0])
        if source.startswith("/") and inside.is_relative_to(target):
            path = str(PurePosixPath(source) / inside.relative_to(target))
            found = max(found or (0, ""), (len(target.parts), path))
    return found[1] if found else None


def shapes_on_hosts(facts: Mapping[str, HostFacts], hosts: Iterable[str]) -> dict[str, ModelShape]:
    """The shape by the files of each host that has them."""
    found = {}
    for host in hosts:
        model = facts[host].model if host in facts else None
        shape = shape_of_text(model.config) if model else None
        if model and shape:
            found[host] = replace(shape, weights_gb=model.weights / 1e9 or None)
    return found


def with_shape_on_hosts(recipe: ResolvedRecipe, shapes: Mapping[str, ModelShape]) -> ResolvedRecipe:
    """The recipe, what it leaves open of its model's shape being as the first host's files say."""
    first = next(iter(shapes.values()), None)
    return replace(recipe, shape=overlay(recipe.shape, first))


def check_one_model(model: str, shapes: Mapping[str, ModelShape], used: Iterable[str]) -> list[str]:
    """Notes on files that differ in size. Raises PlanError where two hosts have different models.

    The plan was made by the first of `shapes`; `used` are the hosts that it takes.
    """
    if not shapes:
        return []
    first, shape = next(iter(shapes.items()))
    for host in used:
        other = shapes.get(host, shape)
        differences = [
            f"{field.name} {getattr(shape, field.name)} on {first}, "
            f"{getattr(other, field.name)} on {host}"
            for field in fields(ModelShape)
            if getattr(shape, field.name) != getattr(other, field.name)
        ]
        if not differences:
            continue
        if replace(other, weights_gb=shape.weights_gb) == shape:
            return [f"the files of {model} differ: {differences[0]}: one may be unfinished"]
        raise PlanError(
            f"{model} is another model on {host} than on {first}: {'; '.join(differences)}",
            where=host,
            why="every node of a deployment has to load the same model",
            hint="make its directories the same, or leave a host out with --limit",
        )
    return []
