"""The launch of one vLLM node: its arguments, environment, labels and container."""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.deployment import SECRET_VARIABLES, Deployment, secret_argument
from orchestrator.errors import PlanError
from orchestrator.inventory.host import Host
from orchestrator.planning.address import listen_address, url
from orchestrator.planning.draining import drain_environment, drain_files, drainable
from orchestrator.planning.environment import node_environment
from orchestrator.planning.health_check import endpoint_check
from orchestrator.planning.kv_store import CONFIG_FILE, STORE_VARIABLE
from orchestrator.planning.launch_spec import LaunchSpec
from orchestrator.planning.model_files import volumes
from orchestrator.recipes.arguments import canonical, flag_value, with_argument
from orchestrator.recipes.resolved import CommandParts, ResolvedRecipe
from orchestrator.runtime.container import Container
from orchestrator.secret import Secret
from orchestrator.topology.engines import DEFAULT_PORT
from orchestrator.topology.ip_address import ip_address
from orchestrator.topology.layout import Layout, Node
from orchestrator.version import __version__


def node_spec(
    node: Node,
    head: Node,
    layout: Layout,
    recipe: ResolvedRecipe,
    host: Host,
    deployment: Deployment,
    own_env: Mapping[str, str | Secret],
    store_config: str | None = None,
) -> LaunchSpec:
    """The LaunchSpec of `node`, whose group's rank 0 is `head`.

    `own_env` is the deployment's environment with its templates resolved for this host;
    `store_config` is the KV store's file for instances. Raises PlanError for a variable that a
    server must never be given.
    """
    name = deployment.deployment_name()
    parts = recipe.pools[node.role].parts if recipe.pools else recipe.parts
    pool = pool_of(node)
    container_name = f"orc-{name}-r{node.replica}-n{node.rank}" + (f"-{pool}" if pool else "")
    # A follower's arguments are its head's, though it serves nothing.
    _refuse_secret_arguments(parts)
    argv = _with_port(recipe.pool_argv(parts, node.parallel), node.port or head.port)
    argv = _with_host(argv, node if node.serves else head)
    if not node.serves:
        argv = _without_api_servers(argv)
    env = node_environment(
        node, head, layout, parts.env, host.settings, own_env, deployment.health.timeout
    )
    if store_config is not None:
        _refuse_own_store(host, own_env)
        env[STORE_VARIABLE] = CONFIG_FILE
    if recipe.hardware.brand == "AMD" and len(node.gpus) < recipe.hardware.gpu_count:
        env.setdefault("HIP_VISIBLE_DEVICES", ",".join(map(str, node.gpus)))
    files = {CONFIG_FILE: store_config} if store_config is not None else {}
    if pool and layout.replicas > 1:  # followers too: they differ from their head in ranks alone
        argv, env = drainable(argv), {**env, **drain_environment(env)}
        files |= drain_files()
    served = _served_model(recipe.model, parts)
    image = deployment.image or recipe.image
    settings = host.settings
    container = Container(
        name=container_name,
        image=image,
        command=tuple(argv),
        labels=_labels(name, node, layout, served),
        env_file=f".orc/{container_name}.env",
        files=files,
        brand=recipe.hardware.brand,
        gpus=node.gpus,
        volumes=volumes(settings),
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
        health=endpoint_check(
            deployment.health, node.role, _endpoint(node), served, node.data_ranks
        ),
        port=node.port,
        ports=dict(node.ports),
    )


def pool_of(node: Node) -> str:
    """`prefill` or `decode`, else an empty string."""
    return node.role if node.role in ("prefill", "decode") else ""


def _refuse_secret_arguments(parts: CommandParts) -> None:
    """A command line is read by everybody on the host: `ps` shows it, and so does a label."""
    for argument in parts.arguments:
        if secret_argument(argument.flag, list(argument.tokens[1:])):
            variable = SECRET_VARIABLES.get(argument.flag)
            raise PlanError(
                f"{argument.flag} would put a secret on a command line (from {argument.layer})",
                why="every user of the host can read it there",
                hint=f"give it in the environment: env.{variable or 'NAME'}, or orc_env",
            )


def _refuse_own_store(host: Host, own_env: Mapping[str, str | Secret]) -> None:
    if STORE_VARIABLE in own_env or STORE_VARIABLE in host.settings.env:
        raise PlanError(
            f"{STORE_VARIABLE} is set by you, and the KV store's file is given by orc",
            where=host.name,
            why="the instances and the store must have one configuration",
            hint="take it out of env and orc_env, and set what differs: kv_store.KEY",
        )


def _labels(name: str, node: Node, layout: Layout, served: str) -> dict[str, str]:
    labels = {
        "orc.deployment": name,
        "orc.replica": str(node.replica),
        "orc.rank": str(node.rank),
        "orc.role": node.role,
        "orc.nodes": str(layout.containers_per_replica),
        "orc.gpus": ",".join(map(str, node.gpus)),
        "orc.version": __version__,
    }
    if node.ports:
        labels["orc.ports"] = ",".join(f"{use}={port}" for use, port in node.ports.items())
    if endpoint := _endpoint(node):
        labels |= {"orc.endpoint": endpoint, "orc.model": served}
    if node.data_ranks:
        labels["orc.data-ranks"] = f"{node.data_ranks[0]}-{node.data_ranks[-1]}"
    return labels


def _endpoint(node: Node) -> str | None:
    return None if node.port is None else url(node.slot.address, node.port)


def _with_port(argv: list[str], port: int | None) -> list[str]:
    """`argv` on `port`: an own --port is replaced, vLLM's default is left unsaid."""
    if port is None:
        return argv
    said = flag_value(argv, "--port") is not None
    return with_argument(argv, "--port", str(port)) if said or port != DEFAULT_PORT else argv


def _with_host(argv: list[str], node: Node) -> list[str]:
    """`argv` listening on IPv6 where it is met there: vLLM's default is IPv4 alone (0.32.0).

    Raises PlanError for a --host at which nobody would find the server.
    """
    address = node.slot.address or "127.0.0.1"
    wanted, given = listen_address(address), flag_value(argv, "--host")
    listens = ip_address(given or "0.0.0.0")
    if listens and listens.is_unspecified:
        needless = wanted == "0.0.0.0" or listens.version == 6
        return argv if needless else with_argument(argv, "--host", wanted)
    if given == address or (listens and listens == ip_address(address)):
        return argv
    raise PlanError(
        f"--host {given} listens where nothing asks: the endpoint is at {address}",
        where=node.slot.host,
        why="health, the router and whoever uses the endpoint ask the data-plane address",
        hint="leave host out of args (vLLM then listens on every address), or set orc_address",
    )


def _without_api_servers(argv: list[str]) -> list[str]:
    """`--api-server-count=1 cannot be used with --headless` (vLLM 0.32.0, exit 1)."""
    return with_argument(argv, "--api-server-count", None)


def _served_model(model: str, parts: CommandParts) -> str:
    """The name that /v1/models lists first."""
    for argument in parts.arguments:
        if argument.flag == "--served-model-name":
            names = canonical(argument.tokens[0]).value, *argument.tokens[1:]
            return next((name for name in names if name), model)
    return model
