"""What `orc status` shows a person."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.cli.session import nothing_there
from orchestrator.health.look import Look
from orchestrator.health.metrics import Load
from orchestrator.health.status import RankStatus, ReplicaStatus
from orchestrator.planning.service import group_name
from orchestrator.runtime.gpu_use import GpuUse


def status_lines(found: Look, name: str | None) -> list[str]:
    """The whole output."""
    lines: list[str] = []
    for one in found.statuses:
        lines.append(one.name)
        for replica in one.replicas:
            lines += _replica_lines(replica)
    if not found.statuses:
        lines.append(nothing_there(found.seen, name))
    for host, why in found.seen.explained.items():
        docker = "docker: " if host in found.seen.broken else ""
        lines += f"{host}: unknown: {docker}{why}".splitlines()
    return lines


def _replica_lines(replica: ReplicaStatus) -> list[str]:
    detail = f": {replica.detail}" if replica.detail else ""
    lines = [f"  {group_name(replica.replica)}  {replica.health}{detail}"]
    lines += [_rank_line(rank) for rank in replica.ranks]
    for target, check in replica.endpoints:
        line = f"    {target.url}  {target.model}  {check.detail or 'answers'}"
        load = replica.loads.get(target.url)
        lines.append(line if load is None else f"{line}; {_load(load)}")
    lines += [f"    note: {note}" for note in replica.notes]
    return lines


def _rank_line(rank: RankStatus) -> str:
    line = f"    rank {rank.rank}  {rank.role:<9} {rank.host or '-':<16} {rank.state}"
    if rank.up_seconds is not None:
        line += f"  up {_duration(rank.up_seconds)}"
    if rank.restart_count:
        line += f"  restarted {rank.restart_count} times"
    return line + (f"  {_gpus(rank.gpus)}" if rank.gpus else "")


def _gpus(gpus: Sequence[GpuUse]) -> str:
    """`8 GPUs 489 of 640 GiB, 93 % busy`: memory together, use as the mean."""
    count = "1 GPU" if len(gpus) == 1 else f"{len(gpus)} GPUs"
    used = [gpu.used_mib for gpu in gpus if gpu.used_mib is not None]
    total = [gpu.memory_mib for gpu in gpus if gpu.memory_mib is not None]
    busy = [gpu.busy_percent for gpu in gpus if gpu.busy_percent is not None]
    text = count
    if used and total:
        text += f" {sum(used) / 1024:.0f} of {sum(total) / 1024:.0f} GiB"
    return text + (f", {sum(busy) / len(busy):.0f} % busy" if busy else "")


def _load(load: Load) -> str:
    parts = [f"{load.running} running", f"{load.waiting} waiting"]
    if load.kv_cache is not None:
        parts.append(f"KV cache {load.kv_cache * 100:.0f} %")
    if load.generation_tokens_per_second is not None:
        rate = f"{load.generation_tokens_per_second:g} tokens/s"
        parts.append(f"{rate} over {load.seconds:g} s")
    return ", ".join(parts)


def _duration(seconds: float) -> str:
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
