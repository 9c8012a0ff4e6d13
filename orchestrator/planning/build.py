"""The plan of a deployment: inventory, recipe, selection and facts in, LaunchSpecs out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from orchestrator.deployment import Deployment
from orchestrator.errors import InputError, PlanError
from orchestrator.facts.host_facts import HostFacts
from orchestrator.image_reference import checked_image
from orchestrator.inventory.load import Inventory
from orchestrator.planning.address import url
from orchestrator.planning.environment_checks import check_environments
from orchestrator.planning.gpu_memory import memory_notes
from orchestrator.planning.hosts import choose_hardware, hosts_of, slots
from orchestrator.planning.kv_store import plan_kv_store
from orchestrator.planning.launch_spec import LaunchSpec
from orchestrator.planning.model_files import (
    check_one_model,
    shapes_on_hosts,
    with_shape_on_hosts,
)
from orchestrator.planning.node_spec import node_spec, pool_of
from orchestrator.planning.plan import Endpoint, Plan
from orchestrator.planning.router import image_note, plan_router, reserving
from orchestrator.recipes.arguments import json_of
from orchestrator.recipes.catalog import Catalog
from orchestrator.recipes.resolved import ResolvedRecipe
from orchestrator.runtime.scripts import environment_file
from orchestrator.secret import Secret
from orchestrator.topology.addresses import check_meeting, check_own
from orchestrator.topology.build import build_layout, some_of
from orchestrator.topology.layout import Layout, Slot
from orchestrator.topology.placement import Placement
from orchestrator.topology.ports import PortAllotment, PortUse

_DRAFTS_OF_HIDDEN_STATES = ("eagle3", "dflash", "dspark")


def plan(
    inventory: Inventory,
    catalog: Catalog,
    deployment: Deployment,
    facts: Mapping[str, HostFacts] | None = None,
    ports: PortUse | None = None,
    running: Placement | None = None,
) -> Plan:
    """Who runs what: one LaunchSpec per node, in order of replica and rank.

    `facts` (by host) fill in what the inventory leaves open; `ports` are those known in use;
    replicas that are `running` stay on their hosts. No host is touched, and the same input gives
    the same bytes. Raises InputError for an unknown name and PlanError, with the equation, for a
    selection these hosts cannot run.
    """
    everyone = list(inventory.hosts.values())
    hardware = choose_hardware(everyone, deployment.hardware)
    profile = catalog.hardware(hardware)
    hosts = {host.name: host for host in hosts_of(everyone, hardware)}
    recipe = catalog.resolve(deployment, hardware, nodes=deployment.nodes)
    allotment = PortAllotment(ports or PortUse())
    places = slots(list(hosts.values()), profile, facts or {})
    shapes = shapes_on_hosts(facts or {}, hosts)
    recipe = with_shape_on_hosts(recipe, shapes)
    try:
        layout = build_layout(recipe, places, deployment, allotment, running)
    except PlanError as error:
        error.why = error.why or _whose_strategy(deployment, recipe)
        raise
    image = deployment.image or recipe.image
    store = None
    if recipe.kv_store is not None:
        store = plan_kv_store(recipe.kv_store, layout, hosts, deployment, image, allotment)
    heads = {(node.replica, pool_of(node)): node for node in layout.nodes if node.rank == 0}
    nodes = tuple(
        node_spec(
            node,
            heads[node.replica, pool_of(node)],
            layout,
            recipe,
            hosts[node.slot.host],
            deployment,
            inventory.environment(node.slot.host, deployment.env, "the deployment"),
            store.instance_config if store else None,
        )
        for node in layout.nodes
    )
    router = plan_router(
        nodes,
        layout,
        hosts,
        {slot.host: slot for slot in places},
        deployment,
        recipe.router,
        image,
        allotment,
    )
    services = store.services if store else ()
    _check_reach(layout, places, router, recipe)
    check_environments(layout, nodes, (*services, *([router] if router else ())))
    if router is not None:
        nodes = reserving(nodes, router)
    plan = Plan(
        name=deployment.deployment_name(),
        deployment=deployment,
        recipe=recipe.recipe,
        variant=recipe.variant,
        strategy=recipe.strategy.name,
        hardware=hardware,
        layout=layout,
        nodes=nodes,
        endpoints=tuple(_endpoints(nodes)),
        router=router,
        services=services,
        notes=(
            *recipe.notes,
            *layout.notes,
            *memory_notes(layout, hosts, profile),
            *check_one_model(recipe.model, shapes, [node.slot.host for node in layout.nodes]),
            *(store.notes if store else ()),
            *_draft_notes(layout, recipe),
            *_notes(layout, router, deployment),
        ),
        mixture_of_experts=recipe.mixture_of_experts,
        kv_offload=recipe.kv_offload,
        hosts=tuple(places),
    )
    _check_images(plan.everything)
    _check_environments(plan.everything)
    return plan


def _check_images(specs: Iterable[LaunchSpec]) -> None:
    """Raises PlanError for an image that docker would refuse on every host; the user's own is
    refused before, so this one is the recipe's."""
    for spec in specs:
        try:
            checked_image(spec.image)
        except ValueError as error:
            raise PlanError(
                f"the recipe's image {spec.image!r} is none: {error}",
                where=spec.name,
                hint="mend the recipe's docker_image, or give another: image=REPOSITORY:TAG",
            ) from None


def _check_environments(specs: Iterable[LaunchSpec]) -> None:
    """Raises InputError for what no container can be given, whatever part it comes from. Secrets
    that have to be fetched are not: whoever plans need not have them."""
    checked: set[tuple[str, str]] = set()  # most nodes have most of it alike
    for spec in specs:
        texts = [(k, v.at_hand if isinstance(v, Secret) else v) for k, v in spec.env.items()]
        try:
            environment_file(dict(pair for pair in texts if pair not in checked))
        except InputError as error:
            error.where = spec.name
            raise
        checked.update(texts)


def _check_reach(
    layout: Layout, places: Iterable[Slot], router: LaunchSpec | None, recipe: ResolvedRecipe
) -> None:
    """Raises PlanError where hosts cannot meet that a router or a KV store brings together; those
    of one replica have been checked already."""
    used = {node.slot.host for node in layout.nodes} | ({router.host} if router else set())
    slots = [slot for slot in places if slot.host in used]
    for slot in slots:
        check_own(slot)  # the router's may be no node's
    if len(slots) < 2:
        return
    if recipe.kv_store is not None:
        check_meeting(slots, "the instances meet the KV store and each other at these addresses")
    elif router is not None:
        check_meeting(slots, "the router reaches every node at its address", one_family=False)


def _whose_strategy(deployment: Deployment, recipe: ResolvedRecipe) -> str | None:
    """Why there are several nodes, where the user asked for none of it."""
    if recipe.strategy.deploy_type != "multi_node" or deployment.strategy or deployment.nodes:
        return None
    return (
        f"no strategy was named, and on {recipe.hardware.name} the recipe recommends "
        f"{recipe.strategy.name}"
    )


def _endpoints(nodes: tuple[LaunchSpec, ...]) -> list[Endpoint]:
    return [
        Endpoint(node.replica, node.host, url(node.address, node.port), node.served_model)
        for node in nodes
        if node.port is not None
    ]


def _notes(layout: Layout, router: LaunchSpec | None, deployment: Deployment) -> list[str]:
    notes = []
    interfaces = {node.slot.host: node.slot.interface for node in layout.nodes}
    unknown = [host for host, interface in interfaces.items() if interface is None]
    if unknown and layout.nodes_per_replica > 1:
        notes.append(
            f"the data-plane interface of {some_of(unknown)} is not known here: `orc up` asks "
            "the hosts, as does `orc plan --gather-facts`; or set orc_interface"
        )
    endpoints = sum(node.serves for node in layout.nodes)
    if router is None and endpoints > 1:
        notes.append(
            f"{endpoints} endpoints and no router: clients choose among them; router: {{}} puts "
            "one in front"
        )
    if router is not None and not (deployment.router and deployment.router.image):
        notes.append(image_note(router))
    return notes


def _draft_notes(layout: Layout, recipe: ResolvedRecipe) -> list[str]:
    """Draft models that read hidden states of every stage: few models hand them on.

    Which ones is in vLLM's code for the model and in none of its files (0.32.0,
    `verify_supports_aux_hidden_states_over_pp` of the v2 model runner).
    """
    parts = {role: pool.parts for role, pool in recipe.pools.items()}
    notes = []
    for role, sizes in layout.sizes.items():
        arguments = parts.get(role, recipe.parts).arguments
        method = json_of(arguments, "--speculative-config").get("method")
        if sizes.pipeline > 1 and method in _DRAFTS_OF_HIDDEN_STATES:
            notes.append(
                f"speculative decoding by {method} over {sizes.pipeline} pipeline stages: vLLM "
                "0.32.0 has it for few models, and ends after loading for any other; without it: "
                "features: [-spec_decoding], or args: {speculative-config: null}"
            )
    return list(dict.fromkeys(notes))
