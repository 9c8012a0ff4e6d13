"""What a picture of a plan shows: hosts, their GPUs by rank, replicas, endpoints and the router.

No positions and no medium: the SVG and the drawing in the terminal are both made of this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Literal

from orchestrator.planning.address import url
from orchestrator.planning.launch_spec import LaunchSpec
from orchestrator.planning.plan import Plan
from orchestrator.topology.layout import GpuRank, Sizes

_SERVICE_NAMES = {"router": "router", "kv_master": "KV store master", "kv_store": "KV store"}
DIMENSIONS = ("DP", "PP", "PCP", "TP", "EP")  # slowest first, as the ranks run

Label = tuple[str, int]  # ("TP", 3)


@dataclass(frozen=True, slots=True)
class Cell:
    """One GPU of one host. `node` and `rank` are None when the plan leaves it unused.

    `hue` numbers the colours of `Picture.hues`; `tone` is 0 or 1, to set neighbours apart.
    `labels` are the ranks that say something: those of a size above 1. `layers` are those of
    its pipeline stage where there are several.
    """

    gpu: int
    node: LaunchSpec | None = None
    rank: GpuRank | None = None
    labels: tuple[Label, ...] = ()
    layers: tuple[int, int] | None = None
    hue: int = 0
    tone: int = 0


@dataclass(frozen=True, slots=True)
class Segment:
    """Neighbouring GPUs of one container that share a tensor group, and what they have in common.

    `common` and `layers` hold for all of its cells and need not be repeated in them.
    """

    cells: tuple[Cell, ...]
    common: tuple[Label, ...]
    layers: tuple[int, int] | None

    def own_labels(self, cell: Cell) -> tuple[Label, ...]:
        """The ranks of one cell that its segment does not say already."""
        return tuple(label for label in cell.labels if label not in self.common)


@dataclass(frozen=True, slots=True)
class Part:
    """Neighbouring GPUs of one container; of none when they are unused."""

    node: LaunchSpec | None
    segments: tuple[Segment, ...]

    @property
    def cells(self) -> tuple[Cell, ...]:
        return tuple(cell for segment in self.segments for cell in segment.cells)


@dataclass(frozen=True, slots=True)
class HostBox:
    """A host: its GPUs in order, and the services that run on it beside them."""

    name: str
    address: str | None
    cells: tuple[Cell, ...]
    services: tuple[str, ...] = ()

    @property
    def nodes(self) -> tuple[LaunchSpec, ...]:
        """Its containers that hold GPUs, by their first GPU."""
        seen = {cell.node.name: cell.node for cell in self.cells if cell.node}
        return tuple(seen.values())

    def rows(self, per_row: int) -> tuple[tuple[Part, ...], ...]:
        """Its GPUs, at most `per_row` in a row, grouped by container."""
        chunks = [self.cells[at : at + per_row] for at in range(0, len(self.cells), per_row)]
        return tuple(_parts(chunk) for chunk in chunks)


@dataclass(frozen=True, slots=True)
class Block:
    """Hosts that belong together: those of one replica or pool, single ones, or those left over."""

    kind: Literal["replica", "single", "unused"]
    title: str
    hosts: tuple[HostBox, ...]


@dataclass(frozen=True, slots=True)
class Service:
    """The hosts that share a role of the KV store, in one line of text."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class EndpointMark:
    """An endpoint, and whose it is where there are several replicas or pools; else empty."""

    url: str
    whose: str


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything that is shown. `hues` names what each colour stands for."""

    blocks: tuple[Block, ...]
    hues: tuple[str, ...]
    source: str  # who calls the endpoints: the router, or clients
    endpoints: tuple[EndpointMark, ...]
    stores: tuple[Service, ...]
    stages: tuple[tuple[str, tuple[int, int]], ...]  # layers by stage, where they are known

    @property
    def hosts(self) -> tuple[HostBox, ...]:
        return tuple(host for block in self.blocks for host in block.hosts)


def picture(plan: Plan) -> Picture:
    """What a picture of `plan` shows.

    Environments, which is where secrets are, are not read.
    """
    colouring = _Colouring(plan)
    hosts = _hosts(plan, colouring)
    return Picture(
        blocks=_blocks(hosts, framed=plan.layout.nodes_per_replica > 1),
        hues=colouring.names(),
        source=_source(plan),
        endpoints=_endpoints(plan),
        stores=_stores(plan.services),
        stages=_stages(plan),
    )


def pool(node: LaunchSpec) -> str:
    """`prefill` or `decode`; empty outside prefill/decode."""
    return node.role if node.role in ("prefill", "decode") else ""


def serves_at(node: LaunchSpec) -> str | None:
    """The URL at which the node answers; None when it is headless."""
    return None if node.port is None else url(node.address, node.port)


def layers_text(layers: tuple[int, int]) -> str:
    """A half-open range of layers as its first and last one: `0-30`."""
    first, end = layers
    return f"{first}-{end - 1}" if end - first > 1 else str(first)


def span_text(names: Sequence[str]) -> str:
    """Host names in one phrase: `node01, node02`, or `node01 … node16 (16 hosts)`."""
    if len(names) <= 3:
        return ", ".join(names)
    return f"{names[0]} … {names[-1]} ({len(names)} hosts)"


def _stages(plan: Plan) -> tuple[tuple[str, tuple[int, int]], ...]:
    """The layers of each pipeline stage, pool by pool."""
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for node in plan.nodes:
        for rank in node.ranks:
            if rank.layers:
                found[pool(node), rank.pp] = rank.layers
    return tuple((f"{of} PP {pp}".strip(), layers) for (of, pp), layers in sorted(found.items()))


def totals(shown: Picture) -> str:
    """How many of the GPUs and hosts are used, and the layers when all hold the same."""
    hosts = shown.hosts
    cells = [cell for host in hosts for cell in host.cells]
    used = sum(cell.node is not None for cell in cells)
    busy = sum(bool(host.nodes) for host in hosts)
    text = f"{used} of {len(cells)} GPUs on {busy} of {len(hosts)} host{'s' * (len(hosts) > 1)}"
    if len({layers for _, layers in shown.stages}) == 1:
        text += f", layers {layers_text(shown.stages[0][1])} on each"
    return text


class _Colouring:
    """Which colour a GPU has: the first of pool, replica, stage, DP rank that tells GPUs apart.

    DP ranks of one GPU each get no colours of their own: a rainbow would say nothing.
    """

    def __init__(self, plan: Plan) -> None:
        self._sizes = plan.layout.sizes
        self._replicas = plan.layout.replicas
        first = plan.layout.first_sizes
        self._pools = [name for name in self._sizes if name]
        if self._pools:
            self._by = "pool"
        elif self._replicas > 1:
            self._by = "replica"
        elif first.pipeline > 1:
            self._by = "stage"
        elif first.data > 1 and first.world > first.data:
            self._by = "data"
        else:
            self._by = "all"

    def names(self) -> tuple[str, ...]:
        """What each hue stands for, in order."""
        first = next(iter(self._sizes.values()))
        if self._by == "pool":
            return tuple(self._pools)
        count = {"replica": self._replicas, "stage": first.pipeline, "data": first.data}
        word = {"replica": "replica", "stage": "pipeline stage", "data": "DP rank"}
        if self._by in count:
            return tuple(f"{word[self._by]} {index}" for index in range(count[self._by]))
        return ("in use",)

    def cell(self, node: LaunchSpec, rank: GpuRank) -> Cell:
        sizes = self.sizes_of(node)
        hues = {"pool": self._pool_index(node), "replica": node.replica}
        hues |= {"stage": rank.pp, "data": rank.dp, "all": 0}
        several = sizes.world > sizes.data * sizes.pipeline
        order = rank.dp if self._by == "stage" else rank.dp * sizes.pipeline + rank.pp
        return Cell(
            gpu=rank.gpu,
            node=node,
            rank=rank,
            labels=_labels(rank, sizes),
            layers=rank.layers if sizes.pipeline > 1 else None,
            hue=hues[self._by],
            tone=order % 2 if several and self._by != "data" else 0,
        )

    def sizes_of(self, node: LaunchSpec) -> Sizes:
        return self._sizes.get(pool(node)) or next(iter(self._sizes.values()))

    def _pool_index(self, node: LaunchSpec) -> int:
        return self._pools.index(pool(node)) if pool(node) in self._pools else 0


def _labels(rank: GpuRank, sizes: Sizes) -> tuple[Label, ...]:
    values = (rank.dp, rank.pp, rank.pcp, rank.tp, rank.ep)
    experts = sizes.expert_parallel and sizes.world > sizes.pipeline
    said = (
        sizes.data > 1,
        sizes.pipeline > 1,
        sizes.prefill_context > 1,
        sizes.tensor > 1,
        experts,
    )
    return tuple(
        (name, value) for name, value, says in zip(DIMENSIONS, values, said, strict=True) if says
    )


def _hosts(plan: Plan, colouring: _Colouring) -> list[HostBox]:
    """Every host of the plan in inventory order, with all GPUs it offers."""
    addresses: dict[str, str | None] = {slot.host: slot.address for slot in plan.hosts}
    gpus = {slot.host: dict.fromkeys(slot.gpus) for slot in plan.hosts}
    cells: dict[str, list[Cell]] = {}
    for node in plan.nodes:
        addresses.setdefault(node.host, node.address)
        gpus.setdefault(node.host, {}).update(dict.fromkeys(node.gpus))
        cells.setdefault(node.host, []).extend(colouring.cell(node, rank) for rank in node.ranks)
    for name in plan.layout.unused:
        addresses.setdefault(name, None)
    running: dict[str, dict[str, None]] = {}
    for node in (*([plan.router] if plan.router else []), *plan.services):
        running.setdefault(node.host, {})[_SERVICE_NAMES[node.role]] = None
    boxes = []
    for name, address in addresses.items():
        used = {cell.gpu for cell in cells.get(name, ())}
        free = [Cell(gpu) for gpu in gpus.get(name, ()) if gpu not in used]
        every = sorted([*cells.get(name, ()), *free], key=lambda cell: cell.gpu)
        boxes.append(HostBox(name, address, tuple(every), tuple(running.get(name, ()))))
    return boxes


def _parts(cells: Sequence[Cell]) -> tuple[Part, ...]:
    parts = []
    for _, group in groupby(cells, key=lambda cell: cell.node.name if cell.node else None):
        members = tuple(group)
        segments = [tuple(run) for _, run in groupby(members, key=_tensor_group)]
        parts.append(Part(members[0].node, tuple(map(_segment, segments))))
    return tuple(parts)


def _tensor_group(cell: Cell) -> tuple[int, ...]:
    """GPUs of one tensor group stay together; without tensor parallel the whole container does."""
    if cell.rank is None or not any(name == "TP" for name, _ in cell.labels):
        return ()
    return (cell.rank.dp, cell.rank.pp, cell.rank.pcp)


def _segment(cells: tuple[Cell, ...]) -> Segment:
    first = cells[0]
    common = tuple(
        label
        for label in first.labels
        if label[0] not in ("TP", "EP") and all(label in cell.labels for cell in cells)
    )
    layers = {cell.layers for cell in cells}
    return Segment(cells, common, layers.pop() if len(layers) == 1 else None)


def _blocks(hosts: Sequence[HostBox], framed: bool) -> tuple[Block, ...]:
    """Hosts of a replica (or pool) of several nodes together, then those left over.

    A host that several replicas share belongs to none of them, and its GPUs say which.
    """
    together: dict[tuple[int, str], list[HostBox]] = {}
    single, unused = [], []
    for host in hosts:
        owners = {(node.replica, pool(node)) for node in host.nodes}
        if not owners:
            unused.append(host)
        elif framed and len(owners) == 1:
            together.setdefault(owners.pop(), []).append(host)
        else:
            single.append(host)
    order = sorted(together, key=lambda key: (key[0], key[1] != "prefill"))
    blocks = [Block("replica", _title(*key), tuple(together[key])) for key in order]
    if single:
        blocks.append(Block("single", "", tuple(single)))
    if unused:
        blocks.append(Block("unused", "GPUs not used", tuple(unused)))
    return tuple(blocks)


def _title(replica: int, of_pool: str) -> str:
    flow = {"prefill": "hands its KV cache to decode", "decode": "takes the KV cache from prefill"}
    return f"replica {replica}" + (f", {of_pool}: {flow[of_pool]}" if of_pool else "")


def _source(plan: Plan) -> str:
    router = plan.router
    if router is None:
        return "clients"
    policy = next((b for a, b in pairwise(router.argv) if a == "--policy"), None)
    words = [f"router on {router.host}", serves_at(router), policy]
    return ", ".join(word for word in words if word)


def _endpoints(plan: Plan) -> tuple[EndpointMark, ...]:
    of = {(node.host, serves_at(node)): pool(node) for node in plan.nodes}
    marks = []
    for end in plan.endpoints:
        replica = f"replica {end.replica}" if plan.layout.replicas > 1 else ""
        whose = ", ".join(word for word in (replica, of.get((end.host, end.url), "")) if word)
        marks.append(EndpointMark(end.url, f"({whose})" if whose else ""))
    return tuple(marks)


def _stores(services: Sequence[LaunchSpec]) -> tuple[Service, ...]:
    found = []
    for role in ("kv_master", "kv_store"):
        nodes = [node for node in services if node.role == role]
        if nodes:
            ports = sorted({p for n in nodes for use, p in n.ports.items() if "metrics" not in use})
            where = span_text(list(dict.fromkeys(node.host for node in nodes)))
            at = f", port{'s' * (len(ports) > 1)} {', '.join(map(str, ports))}" if ports else ""
            found.append(Service(role, f"{_SERVICE_NAMES[role]} on {where}{at}"))
    return tuple(found)
