"""A plan as text: a table of who runs what, then every node's environment and command."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from orchestrator.planning.health_check import HealthCheck
from orchestrator.planning.launch_spec import LaunchSpec
from orchestrator.planning.picture import layers_text
from orchestrator.planning.plan import Plan
from orchestrator.planning.service import group_name
from orchestrator.topology.layout import Sizes
from orchestrator.topology.memory import memory_lines

_COLUMNS = ("HOST", "REPLICA", "RANK", "ROLE", "GPUS", "ADDRESS", "LAYERS")
_ENDPOINTS = 8  # that are listed one by one
RANKS = ("world", "dp", "pp", "pcp", "tp", "ep")  # of a GPU, as `GpuRank` names them


def plan_text(plan: Plan, verbose: int = 0) -> str:
    """The whole plan, as `orc plan` prints it; secrets redacted, commands ready to paste.

    `verbose` adds the memory estimate of a GPU of each stage, and lists endpoints one by one
    that are many.
    """
    parts = [
        "\n".join(summary(plan)),
        _who_runs_what(plan),
        "\n".join(_endpoint_lines(plan, verbose)),
        _start_order(plan),
        "\n".join(memory_lines(plan.layout)) if verbose else "",
        *(f"note: {note}" for note in plan.notes),
        *(_node_text(spec) for spec in plan.everything),
        *_file_texts(plan),
    ]
    return "\n\n".join(part for part in parts if part)


def _endpoint_lines(plan: Plan, verbose: int) -> list[str]:
    pools = {node.health.url: plan.pool(node) for node in plan.nodes}
    lines = [
        f"endpoint: {end.url} ({end.model}{f', {pool}' if (pool := pools[end.url]) else ''})"
        for end in plan.endpoints
    ]
    if len(lines) > _ENDPOINTS and not verbose:
        more = len(lines) - _ENDPOINTS + 1
        lines[_ENDPOINTS - 1 :] = [f"{more} endpoints more, to {plan.endpoints[-1].url}"]
    if plan.router:
        lines.append(f"router: {plan.router.health.url} (requests go here)")
    return lines


def _start_order(plan: Plan) -> str:
    """One line, where not all starts at once."""
    steps = []
    for groups in plan.start_order:
        numbers = [group[0].replica for group in groups]
        word = "replica" if len(numbers) == 1 else "replicas"
        service = f"the {group_name(numbers[0])}"
        steps.append(f"{word} {ranges(numbers)}" if numbers[0] >= 0 else service)
    if len(steps) == 1:
        return ""
    return f"start order: {', then '.join(steps)}; each when all before it is healthy"


def summary(plan: Plan) -> tuple[str, str]:
    """Two lines: what runs on what, and in which sizes."""
    layout = plan.layout
    sizes = "; ".join(_sizes_text(pool, sizes) for pool, sizes in layout.sizes.items())
    recipe = plan.recipe if plan.variant == "default" else f"{plan.recipe} ({plan.variant})"
    ways = [plan.strategy, *([plan.kv_offload] if plan.kv_offload else [])]
    return (
        f"{plan.name}: {recipe} on {plan.hardware}, {', '.join(ways)}",
        f"{layout.replicas} replica{'s' * (layout.replicas > 1)} x {layout.nodes_per_replica} "
        f"node{'s' * (layout.nodes_per_replica > 1)}, {sizes}",
    )


def _sizes_text(pool: str, sizes: Sizes) -> str:
    """`tensor 8, pipeline 2`: the tensor size, and the others where they are not 1."""
    others = (
        ("pipeline", sizes.pipeline),
        ("data", sizes.data),
        ("prefill context", sizes.prefill_context),
        ("decode context", sizes.decode_context),
    )
    words = [f"tensor {sizes.tensor}", *(f"{name} {size}" for name, size in others if size > 1)]
    if sizes.expert_parallel:
        words.append("expert parallel")
    return (f"{pool}: " if pool else "") + ", ".join(words)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns aligned by spaces, which reads the same on a terminal and in a file."""
    lines = [list(header), *map(list, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _who_runs_what(plan: Plan) -> str:
    """The table: a row for each container, a column for each kind of rank that says something."""
    kinds: dict[tuple[int, str], list[str]] = {}  # of a replica's engine, those that are not all 0
    for node in plan.nodes:
        said = kinds.setdefault((node.replica, plan.pool(node)), [])
        said += [name for name in RANKS if any(getattr(rank, name) for rank in node.ranks)]
    columns = [name for name in RANKS if any(name in said for said in kinds.values())]
    rows = []
    for spec in plan.everything:
        said = kinds.get((spec.replica, plan.pool(spec)), [])
        cells = [
            ranks_text([getattr(rank, name) for rank in spec.ranks]) if name in said else "-"
            for name in columns
        ]
        rows.append((*_row(spec), *cells))
    return table((*_COLUMNS, *map(str.upper, columns)), rows)


def ranks_text(numbers: Sequence[int]) -> str:
    """The rank of each GPU, in the order of the GPUs: `0-7`; `0x4,1x4` is four times 0, then 1.

    One number alone is that of all.
    """
    if len(set(numbers)) == 1:
        return str(numbers[0])
    words = []
    at = 0
    while at < len(numbers):
        same = _run(numbers, at, step=0)
        rising = _run(numbers, at, step=1)
        first = str(numbers[at])
        if rising > 1:
            first += f"-{numbers[at + rising - 1]}"
        elif same > 1:
            first += f"x{same}"
        words.append(first)
        at += max(same, rising)
    return ",".join(words)


def _run(numbers: Sequence[int], start: int, step: int) -> int:
    """How many numbers from `start` on are each `step` more than the one before."""
    end = start + 1
    while end < len(numbers) and numbers[end] == numbers[end - 1] + step:
        end += 1
    return end - start


def _row(node: LaunchSpec) -> tuple[str, ...]:
    layers = sorted({rank.layers for rank in node.ranks if rank.layers})
    return (
        node.host,
        str(node.replica) if node.replica >= 0 else "-",
        str(node.rank) if node.replica >= 0 else "-",
        node.role,
        ranges(node.gpus) or "-",
        node.address or "-",
        " ".join(map(layers_text, layers)) or "-",
    )


def ranges(numbers: Sequence[int]) -> str:
    """Rising numbers in few words: 0, 1, 2, 5 as `0-2,5`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _node_text(node: LaunchSpec) -> str:
    where = f"replica {node.replica}, rank {node.rank} ({node.role})"
    lines = [f"# {node.host}: {where if node.replica >= 0 else node.role}"]
    if node.ports:
        lines.append(f"#   ports: {', '.join(f'{use} {port}' for use, port in node.ports.items())}")
    lines.append(f"#   healthy: {_health_text(node.health)}")
    lines += [f"#   {name}={shlex.quote(value)}" for name, value in node.shown_env.items()]
    return "\n".join([*lines, command_text(node.command)])


def _health_text(check: HealthCheck) -> str:
    limit = f"within {duration_text(check.timeout)}"
    if check.tcp_ports:
        ports = ", ".join(map(str, check.tcp_ports))
        return f"TCP connects to {ports}; {limit}"
    if check.url is None:
        return "it runs on until its head is healthy"
    steps = [f"GET {check.url}{check.path} is 200", f"/v1/models lists {check.model}"]
    if check.completion:
        ranks = f" by each of the data-parallel ranks {ranges(check.data_ranks)}"
        steps.append(f"POST /v1/completions answers{ranks if len(check.data_ranks) > 1 else ''}")
    return f"{', '.join(steps)}; {limit}"


def duration_text(seconds: float) -> str:
    """Seconds as a deployment has them: `45m`, `90s`."""
    return f"{seconds / 60:g}m" if seconds >= 60 and seconds % 60 == 0 else f"{seconds:g}s"


def _file_texts(plan: Plan) -> list[str]:
    """Every file that is written for a container, once with all the containers that have it."""
    owners: dict[tuple[str, str], list[str]] = {}
    for spec in plan.everything:
        for path, content in spec.files.items():
            owners.setdefault((path, content), []).append(spec.name)
    return [
        f"# {path} in {', '.join(names)}:\n{content.rstrip()}"
        for (path, content), names in owners.items()
    ]


def command_text(command: Sequence[str]) -> str:
    """A command over several lines: an option with its values on each, quoted for a shell."""
    lines: list[str] = []
    for word in command:
        quoted = shlex.quote(word)
        if not lines or word.startswith("--"):
            lines.append(quoted)
        else:
            lines[-1] += f" {quoted}"
    return " \\\n  ".join(lines)
