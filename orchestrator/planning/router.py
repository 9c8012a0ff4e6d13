"""vllm-router in front of a deployment's endpoints (flags of vllm-router 0.1.17)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from orchestrator.deployment import Deployment, Router, RouterPolicy
from orchestrator.errors import PlanError, did_you_mean
from orchestrator.inventory.host import Host
from orchestrator.planning.address import listen_address, url
from orchestrator.planning.launch_spec import RESERVED_PORTS, LaunchSpec
from orchestrator.planning.service import ROUTER_GROUP, Service, service_spec
from orchestrator.recipes.taxonomy import StrategyRouter
from orchestrator.topology.layout import Layout, Slot
from orchestrator.topology.ports import PortAllotment, port_use

METRICS_PORT = 29000  # vllm-router's --prometheus-port
HEALTH_CHECK_SECONDS = 5  # its own default of 60 leaves requests going to a dead worker
# Three checks in a row that fail take a worker out, and a busy vLLM answers /health late: its own
# default of 5 s takes workers out under load. A dead process refuses at once all the same.
HEALTH_CHECK_TIMEOUT_SECONDS = 30
DEFAULT_POLICY: RouterPolicy = "round_robin"
PREFILL_DECODE = "--vllm-pd-disaggregation"


def plan_router(
    nodes: Sequence[LaunchSpec],
    layout: Layout,
    hosts: Mapping[str, Host],
    slots: Mapping[str, Slot],
    deployment: Deployment,
    declared: StrategyRouter | None,
    image: str,
    ports: PortAllotment,
) -> LaunchSpec | None:
    """The router, where one was asked for or the endpoints only work behind one.

    `declared` is the recipe's, behind the user's wishes. It runs on the host that `router.host`
    names, else on the first host of the deployment. Raises PlanError for a host that is not in
    the inventory and for a port that is taken.
    """
    wanted = deployment.router
    if wanted is None and not layout.needs_router:
        return None
    router, declared = wanted or Router(), declared or StrategyRouter(policy=DEFAULT_POLICY)
    host = router.host or nodes[0].host
    if host not in hosts:
        raise PlanError(
            f"router.host {host!r} is not among the hosts", hint=did_you_mean(host, hosts)
        )
    asked = wanted is not None and "port" in wanted.model_fields_set
    wish = router.port if asked else declared.port or router.port
    port = ports.take(host, port_use("api", "router", ROUTER_GROUP, 0), wish, exact=asked)
    metrics = ports.take(host, port_use("metrics", "router", ROUTER_GROUP, 0), METRICS_PORT)
    command = (
        "vllm-router",
        *_workers(nodes, layout),
        *("--policy", router.policy or declared.policy),
        *("--host", listen_address(slots[host].address), "--port", str(port)),
        *("--prometheus-port", str(metrics)),
        *("--health-check-interval-secs", str(HEALTH_CHECK_SECONDS)),
        *("--health-check-timeout-secs", str(HEALTH_CHECK_TIMEOUT_SECONDS)),
    )
    service = Service(
        role="router",
        slot=slots[host],
        command=command,
        ports={"api": port, "metrics": metrics},
        endpoint=url(slots[host].address, port),
        model=nodes[0].served_model,
    )
    return service_spec(service, hosts[host], deployment, router.image or image)


def image_note(router: LaunchSpec) -> str:
    """What is to be known of an image that nobody named for the router."""
    return (
        f"the router runs from {router.image}, which must have vllm-router in it; "
        "router.image names another"
    )


def reserving(nodes: Sequence[LaunchSpec], router: LaunchSpec) -> tuple[LaunchSpec, ...]:
    """The nodes with the router's ports on the label of those on its host, else of the first.

    A router starts last, when the engines have loaded; until then its ports would look free to
    another deployment. They are no part of what a node runs, so not of its hash.
    """
    ports = router.container.labels["orc.ports"]
    holders = [node.name for node in nodes if node.host == router.host]
    if not holders:
        holders, ports = [nodes[0].name], f"{router.host}:{ports}"

    def reserve(node: LaunchSpec) -> LaunchSpec:
        labels = {**node.container.labels, RESERVED_PORTS: ports}
        return replace(node, container=replace(node.container, labels=labels))

    return tuple(reserve(node) if node.name in holders else node for node in nodes)


def _workers(nodes: Sequence[LaunchSpec], layout: Layout) -> list[str]:
    """Every endpoint; under prefill/decode by pool, with the data-parallel ranks behind each."""
    serving = [node for node in nodes if node.port is not None]
    pools = {node.role for node in serving} & {"prefill", "decode"}
    if not pools:
        return ["--worker-urls", *(url(node.address, node.port) for node in serving)]
    words = [PREFILL_DECODE]
    for node in serving:
        words += [f"--{node.role}", url(node.address, node.port)]
    ranks = {len({rank.dp for rank in node.ranks}) for node in serving}
    if len(ranks) == 1 and layout.sizes["prefill"].data > 1:
        words += ["--intra-node-data-parallel-size", str(ranks.pop())]
    return words
