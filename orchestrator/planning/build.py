"""The plan of a deployment: inventory, recipe, selection and facts in, LaunchSpecs out. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator import __version__
from orchestrator.deployment import Deployment
from orchestrator.errors import PlanError
from orchestrator.facts.host_facts import HostFacts
from orchestrator.inventory.host import Host
from orchestrator.inventory.load import Inventory
from orchestrator.planning.environment import node_environment
from orchestrator.planning.hosts import choose_hardware, hosts_of, slots
from orchestrator.planning.launch_spec import LaunchSpec
from orchestrator.planning.plan import Endpoint, Plan
from orchestrator.recipes.catalog import Catalog
from orchestrator.recipes.resolved import ResolvedRecipe
from orchestrator.runtime.container import Container
from orchestrator.secret import Secret
from orchestrator.topology.build import build_layout
from orchestrator.topology.layout import Layout, Node

DEFAULT_PORT = 8000  # vLLM's --port
HF_CACHE = "/root/.cache/huggingface"  # where the public images look for weights


def plan(
    inventory: Inventory,
    catalog: Catalog,
    deployment: Deployment,
    facts: Mapping[str, HostFacts] | None = None,
) -> Plan:
    """Who runs what: one LaunchSpec per node, in order of replica and rank.

    No host is touched, and the same input gives the same bytes. Raises InputError for an
    unknown name and PlanError, with the equation, for a selection these hosts cannot run.
    """
    everyone = list(inventory.hosts.values())
    hardware = choose_hardware(everyone, deployment.hardware)
    profile = catalog.hardware(hardware)
    hosts = hosts_of(everyone, hardware)
    recipe = catalog.resolve(deployment, hardware, nodes=deployment.nodes)
    port = _api_port(recipe, deployment)
    layout = build_layout(recipe, slots(hosts, profile, facts or {}), deployment, port)
    by_name = {host.name: host for host in hosts}
    heads = {node.replica: node for node in layout.nodes if node.rank == 0}
    nodes = tuple(
        _launch_spec(
            node,
            heads[node.replica],
            layout,
            recipe,
            by_name[node.slot.host],
            deployment,
            inventory.environment(node.slot.host, deployment.env, "the deployment"),
        )
        for node in layout.nodes
    )
    return Plan(
        name=deployment.deployment_name(),
        deployment=deployment,
        recipe=recipe.recipe,
        strategy=recipe.strategy.name,
        hardware=hardware,
        layout=layout,
        nodes=nodes,
        endpoints=tuple(_endpoints(nodes)),
        notes=(*recipe.notes, *layout.notes, *_interface_notes(layout)),
    )


def _launch_spec(
    node: Node,
    head: Node,
    layout: Layout,
    recipe: ResolvedRecipe,
    host: Host,
    deployment: Deployment,
    own_env: Mapping[str, str | Secret],
) -> LaunchSpec:
    name = deployment.deployment_name()
    container_name = f"orc-{name}-r{node.replica}-n{node.rank}"
    argv = recipe.argv(node.parallel)
    port = node.port or head.port  # a follower's arguments are its head's, though it serves none
    if port not in (None, DEFAULT_PORT) and "--port" not in argv:
        argv += ["--port", str(port)]
    env = node_environment(
        node, head, layout, recipe.env, host.settings, own_env, deployment.health.timeout
    )
    if recipe.hardware.brand == "AMD" and len(node.gpus) < recipe.hardware.gpu_count:
        env.setdefault("HIP_VISIBLE_DEVICES", ",".join(map(str, node.gpus)))
    served = _served_model(recipe)
    labels = {
        "orc.deployment": name,
        "orc.replica": str(node.replica),
        "orc.rank": str(node.rank),
        "orc.role": node.role,
        "orc.nodes": str(layout.nodes_per_replica),
        "orc.version": __version__,
    }
    if node.port is not None:
        labels |= {"orc.endpoint": url(node.slot.address, node.port), "orc.model": served}
    settings = host.settings
    volumes = settings.volumes
    if settings.hf_home:
        volumes = (f"{settings.hf_home}:{HF_CACHE}", *volumes)
    image = deployment.image or recipe.image
    container = Container(
        name=container_name,
        image=image,
        command=tuple(argv),
        labels=labels,
        env_file=f".orc/{container_name}.env",
        brand=recipe.hardware.brand,
        gpus=node.gpus,
        volumes=volumes,
        devices=settings.devices,
        extra_args=settings.container_args,
    )
    return LaunchSpec(
        deployment=name,
        host=host.name,
        replica=node.replica,
        rank=node.rank,
        role=node.role,
        gpus=node.gpus,
        ranks=node.ranks,
        address=node.slot.address,
        interface=node.slot.interface,
        argv=tuple(argv),
        env=env,
        image=image,
        container=container,
        served_model=served,
        port=node.port,
        ports=dict(node.ports),
    )


def _api_port(recipe: ResolvedRecipe, deployment: Deployment) -> int:
    """The API's port: the user's, else the recipe's --port, else vLLM's."""
    given = next((a.tokens[-1] for a in recipe.arguments if a.flag == "--port"), None)
    if given is None:
        return deployment.port
    if "port" in deployment.model_fields_set and str(deployment.port) != given:
        raise PlanError(
            f"port = {deployment.port}, but the arguments say --port {given}",
            hint="give the port once: port",
        )
    return int(given)


def _served_model(recipe: ResolvedRecipe) -> str:
    """The name that /v1/models lists first."""
    for argument in recipe.arguments:
        if argument.flag == "--served-model-name" and len(argument.tokens) > 1:
            return argument.tokens[1]
    return recipe.model


def _endpoints(nodes: tuple[LaunchSpec, ...]) -> list[Endpoint]:
    return [
        Endpoint(node.replica, node.host, url(node.address, node.port), node.served_model)
        for node in nodes
        if node.port is not None
    ]


def url(address: str | None, port: int) -> str:
    """An HTTP URL; an IPv6 address goes into brackets."""
    host = address or "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _interface_notes(layout: Layout) -> list[str]:
    if layout.nodes_per_replica == 1:
        return []
    unknown = [node.slot.host for node in layout.nodes if node.slot.interface is None]
    if not unknown:
        return []
    return [
        f"the data-plane interface of {', '.join(unknown[:8])} is not known here: `orc up` asks "
        "the hosts, as does `orc plan --gather-facts`; or set orc_interface"
    ]
