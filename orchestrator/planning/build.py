"""The plan of a deployment: inventory, recipe, selection and facts in, LaunchSpecs out. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator import __version__
from orchestrator.deployment import Deployment
from orchestrator.facts.host_facts import HostFacts
from orchestrator.inventory.host import Host
from orchestrator.inventory.load import Inventory
from orchestrator.planning.environment import node_environment
from orchestrator.planning.hosts import choose_hardware, hosts_of, slots
from orchestrator.planning.launch_spec import LaunchSpec
from orchestrator.planning.plan import Endpoint, Plan
from orchestrator.recipes.catalog import Catalog
from orchestrator.recipes.resolved import CommandParts, ResolvedRecipe
from orchestrator.runtime.container import Container
from orchestrator.secret import Secret
from orchestrator.topology.build import build_layout
from orchestrator.topology.engines import DEFAULT_PORT
from orchestrator.topology.layout import Layout, Node
from orchestrator.topology.ports import PortUse

HF_CACHE = "/root/.cache/huggingface"  # where the public images look for weights


def plan(
    inventory: Inventory,
    catalog: Catalog,
    deployment: Deployment,
    facts: Mapping[str, HostFacts] | None = None,
    ports: PortUse | None = None,
) -> Plan:
    """Who runs what: one LaunchSpec per node, in order of replica and rank.

    `facts` (by host) fill in what the inventory leaves open; `ports` are those known in use.

    No host is touched, and the same input gives the same bytes. Raises InputError for an
    unknown name and PlanError, with the equation, for a selection these hosts cannot run.
    """
    everyone = list(inventory.hosts.values())
    hardware = choose_hardware(everyone, deployment.hardware)
    profile = catalog.hardware(hardware)
    hosts = hosts_of(everyone, hardware)
    recipe = catalog.resolve(deployment, hardware, nodes=deployment.nodes)
    planned_on = slots(hosts, profile, facts or {})
    layout = build_layout(recipe, planned_on, deployment, ports)
    by_name = {host.name: host for host in hosts}
    heads = {(node.replica, _pool(node)): node for node in layout.nodes if node.rank == 0}
    nodes = tuple(
        _launch_spec(
            node,
            heads[node.replica, _pool(node)],
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
        hosts=tuple(planned_on),
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
    parts = recipe.pools[node.role].parts if recipe.pools else recipe.parts
    pool = _pool(node)
    container_name = f"orc-{name}-r{node.replica}-n{node.rank}" + (f"-{pool}" if pool else "")
    # A follower's arguments are its head's, though it serves nothing.
    argv = _with_port(recipe.pool_argv(parts, node.parallel), node.port or head.port)
    env = node_environment(
        node, head, layout, parts.env, host.settings, own_env, deployment.health.timeout
    )
    if recipe.hardware.brand == "AMD" and len(node.gpus) < recipe.hardware.gpu_count:
        env.setdefault("HIP_VISIBLE_DEVICES", ",".join(map(str, node.gpus)))
    served = _served_model(recipe.model, parts)
    labels = {
        "orc.deployment": name,
        "orc.replica": str(node.replica),
        "orc.rank": str(node.rank),
        "orc.role": node.role,
        "orc.nodes": str(layout.nodes_per_replica),
        "orc.version": __version__,
    }
    if node.ports:
        labels["orc.ports"] = ",".join(f"{use}={port}" for use, port in node.ports.items())
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


def _pool(node: Node) -> str:
    return node.role if node.role in ("prefill", "decode") else ""


def _with_port(argv: list[str], port: int | None) -> list[str]:
    """`argv` on `port`: an own --port is replaced, vLLM's default is left unsaid."""
    if port is None:
        return argv
    if "--port" in argv:
        argv[argv.index("--port") + 1] = str(port)
        return argv
    return argv if port == DEFAULT_PORT else [*argv, "--port", str(port)]


def _served_model(model: str, parts: CommandParts) -> str:
    """The name that /v1/models lists first."""
    for argument in parts.arguments:
        if argument.flag == "--served-model-name" and len(argument.tokens) > 1:
            return argument.tokens[1]
    return model


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
