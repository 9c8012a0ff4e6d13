"""Which strategies of a recipe fit the hosts at hand, best first. Pure: no host is touched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.deployment import Deployment
from orchestrator.errors import InputError, PlanError
from orchestrator.facts.host_facts import HostFacts
from orchestrator.inventory.load import Inventory
from orchestrator.planning.hosts import choose_hardware, hosts_of, slots
from orchestrator.planning.model_files import shapes_on_hosts, with_shape_on_hosts
from orchestrator.recipes.catalog import Catalog
from orchestrator.recipes.recommend import offered_strategies
from orchestrator.recipes.resolved import ModelShape, ResolvedRecipe
from orchestrator.topology.alternatives import sizes_in_words
from orchestrator.topology.build import layout_or_refusal
from orchestrator.topology.engines import PREFILL_DECODE, STRATEGIES
from orchestrator.topology.layout import Layout, Slot
from orchestrator.topology.memory import tightest

_MOST_NODES = 64  # of one replica, that are tried when nodes are not given


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One strategy on these hosts; `reason` says why not, and is None where it fits.

    `headroom` is what remains on the fullest GPU in GiB beside weights, overhead and the KV
    cache of one sequence; None: not known. It is negative where it is short by estimate.
    """

    strategy: str
    recommended: bool
    reason: str | None = None
    nodes: int = 0  # of one replica
    replicas: int = 0  # as many as the hosts have room for
    sizes: Mapping[str, str] = field(default_factory=dict)  # in words, by pool; "" for one engine
    gpus: int = 0  # of one replica
    headroom: float | None = None
    endpoints: int = 0
    router: bool = False  # whether they only make sense behind one
    parallel: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        return self.reason is None

    @property
    def short(self) -> bool:
        """Whether memory is short by estimate, though not for certain."""
        return self.headroom is not None and self.headroom < 0

    def to_dict(self) -> dict[str, Any]:
        """What `orc plan --suggest --json` prints for it."""
        shown: dict[str, Any] = {
            "strategy": self.strategy,
            "recommended": self.recommended,
            "fits": self.fits,
            "reason": self.reason,
            "short_of_memory": self.short,
        }
        if self.fits:
            shown |= {
                "nodes": self.nodes,
                "replicas": self.replicas,
                "gpus_per_replica": self.gpus,
                "parallel": {pool: dict(sizes) for pool, sizes in self.parallel.items()},
                "headroom_gib": None if self.headroom is None else round(self.headroom, 1),
                "endpoints": self.endpoints,
                "router": self.router,
                "notes": list(self.notes),
            }
        return shown


def suggest(
    inventory: Inventory,
    catalog: Catalog,
    deployment: Deployment,
    facts: Mapping[str, HostFacts] | None = None,
) -> list[Suggestion]:
    """Every strategy that the recipe offers, those that fit first.

    Of those that fit: first what has room for a whole sequence by estimate, then the recipe's
    recommendation, then few nodes for a replica (links inside a node are the fastest), then
    headroom. The sizes, nodes and arguments of `deployment` are kept; its strategy is left
    aside. Raises InputError for an unknown recipe, variant or hardware.
    """
    everyone = list(inventory.hosts.values())
    hardware = choose_hardware(everyone, deployment.hardware)
    profile = catalog.hardware(hardware)
    places = slots(hosts_of(everyone, hardware), profile, facts or {})
    shapes = shapes_on_hosts(facts or {}, [place.host for place in places])
    free = _with(deployment, strategy=None, pools=None)
    chosen = catalog.select(free, hardware, nodes=deployment.nodes)
    recommended = chosen.strategy.name
    found = []
    for name in dict.fromkeys([recommended, *offered_strategies(chosen.recipe)]):
        pools = deployment.pools if name == PREFILL_DECODE else None
        asked = _with(deployment, strategy=name, pools=pools)
        try:
            layout = _best_layout(catalog, hardware, places, asked, shapes)
        except InputError as error:
            found.append(Suggestion(name, name == recommended, reason=_one_line(error)))
        else:
            found.append(_suggestion(name, name == recommended, layout))
    return sorted(found, key=_rank)


def _rank(one: Suggestion) -> tuple[bool, bool, bool, int, float]:
    """The order of suggestions that `suggest` states."""
    return (not one.fits, one.short, not one.recommended, one.nodes, -(one.headroom or 0.0))


def _best_layout(
    catalog: Catalog,
    hardware: str,
    places: Sequence[Slot],
    asked: Deployment,
    shapes: Mapping[str, ModelShape],
) -> Layout:
    """The layout on the fewest nodes that has room for a sequence, else the roomiest.

    As many replicas as the hosts hold. Raises InputError when none fits.
    """

    def resolve(one: Deployment) -> ResolvedRecipe:
        recipe = catalog.resolve(one, hardware, nodes=one.nodes)
        return with_shape_on_hosts(recipe, shapes)

    refusal: InputError | None = None
    best: tuple[float, Deployment] | None = None
    for one in _by_nodes(asked, len(places)):
        try:
            headroom = _headroom(layout_or_refusal(resolve(one), places, one)) or 0.0
        except InputError as error:
            refusal = refusal or error
            continue
        if best is None or headroom > best[0]:
            best = headroom, one
        if headroom >= 0:
            break
    if best is None:
        raise refusal or PlanError("no hosts are left to plan on")
    every = _with(best[1], replicas="max")
    try:
        return layout_or_refusal(resolve(every), places, every)
    except PlanError:  # later hosts may be other ones: what the first hold is certain
        return layout_or_refusal(resolve(best[1]), places, best[1])


def _by_nodes(asked: Deployment, hosts: int) -> Iterator[Deployment]:
    """One replica on ever more nodes, as far as they are left open."""
    one = _with(asked, replicas=1, instances=None)
    rule = STRATEGIES.get(asked.strategy or "")
    if asked.nodes is None and rule is not None and rule.multi_node:
        for nodes in range(2, max(min(hosts, _MOST_NODES), 2) + 1):
            yield _with(one, nodes=nodes)
        return
    yield one
    if asked.strategy == PREFILL_DECODE and asked.nodes is None and asked.pools is None:
        for nodes in range(2, min(hosts, _MOST_NODES) // 2 + 1):
            yield _with(one, pools={"prefill": nodes, "decode": nodes})


def _suggestion(name: str, recommended: bool, layout: Layout) -> Suggestion:
    sizes = layout.sizes
    return Suggestion(
        strategy=name,
        recommended=recommended,
        nodes=layout.nodes_per_replica,
        replicas=layout.replicas,
        sizes={pool: sizes_in_words(one) for pool, one in sizes.items()},
        gpus=sum(one.world for one in sizes.values()),
        headroom=_headroom(layout),
        endpoints=sum(node.serves for node in layout.nodes),
        router=layout.needs_router,
        parallel={
            pool: {"tensor": one.tensor, "pipeline": one.pipeline, "data": one.data}
            for pool, one in sizes.items()
        },
        notes=tuple(note for note in layout.notes if not note.startswith("hosts left over")),
    )


def _headroom(layout: Layout) -> float | None:
    fullest = tightest(layout.memory)
    return fullest.left if fullest else None


def _with(deployment: Deployment, **changed: Any) -> Deployment:
    """The deployment with other fields; a None counts as not given."""
    given = deployment.model_dump(exclude_unset=True) | changed
    return Deployment.model_validate({k: v for k, v in given.items() if v is not None})


def _one_line(error: InputError) -> str:
    return " ".join(error.what.split())
