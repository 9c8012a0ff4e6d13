"""What vLLM's workers say of their own ranks in their logs, against what the plan says. Pure.

Every worker logs once, after it joined its process group (vLLM 0.32.0, `parallel_state.py`):

    rank 3 in world size 4 is assigned as DP rank 1, PP rank 0, PCP rank 0, TP rank 1, ETP rank 1,
    EP rank 3, EPLB rank N/A
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from orchestrator.planning.launch_spec import LaunchSpec
from orchestrator.planning.plan import Plan

RANK_LINE = "is assigned as"  # what to look for in a log
_LINE = re.compile(r"\brank (\d+) in world size (\d+) is assigned as (.+)")
_PART = re.compile(r"\b(DP|PP|PCP|TP|EP) rank (\d+|N/A)")


@dataclass(frozen=True, slots=True, order=True)
class WorkerRank:
    """The ranks of one worker process, within its process group of `size` workers.

    `ep` is None where there are no experts.
    """

    world: int
    size: int
    dp: int
    pp: int
    pcp: int
    tp: int
    ep: int | None = None

    def __str__(self) -> str:
        experts = "" if self.ep is None else f", EP {self.ep}"
        return (
            f"rank {self.world} of {self.size} (DP {self.dp}, PP {self.pp}, PCP {self.pcp}, "
            f"TP {self.tp}{experts})"
        )


def parse_rank_lines(lines: Iterable[str]) -> list[WorkerRank]:
    """The ranks that the workers of one container logged, in the order of their ranks."""
    found = []
    for line in lines:
        match = _LINE.search(line)
        if match is None:
            continue
        named = dict(_PART.findall(match[3]))
        if not {"DP", "PP", "TP"} <= named.keys():
            continue
        experts = named.get("EP", "N/A")
        found.append(
            WorkerRank(
                world=int(match[1]),
                size=int(match[2]),
                dp=int(named["DP"]),
                pp=int(named["PP"]),
                pcp=int(named.get("PCP", 0)),
                tp=int(named["TP"]),
                ep=None if experts == "N/A" else int(experts),
            )
        )
    return sorted(found, key=lambda rank: (rank.world, rank.dp))


def planned_ranks(node: LaunchSpec, plan: Plan) -> list[WorkerRank]:
    """What the workers of `node` have to log, one for each of its GPUs.

    The data-parallel engines of a dense model do not work together: each is a process group of
    its own, whose workers count from 0 (vLLM 0.32.0). Those of a mixture of experts are one.
    """
    engine = [
        rank
        for other in plan.nodes
        if other.replica == node.replica and plan.pool(other) == plan.pool(node)
        for rank in other.ranks
    ]
    joined = plan.mixture_of_experts
    size = len(engine) if joined else len(engine) // len({rank.dp for rank in engine})
    experts = plan.layout.sizes[plan.pool(node)].expert_parallel
    return [
        WorkerRank(
            world=rank.world % size,
            size=size,
            dp=rank.dp if joined else 0,
            pp=rank.pp,
            pcp=rank.pcp,
            tp=rank.tp,
            ep=rank.ep if experts else None,
        )
        for rank in sorted(node.ranks, key=lambda rank: rank.world)
    ]


def rank_differences(node: LaunchSpec, plan: Plan, lines: Iterable[str]) -> list[str]:
    """How what the workers of `node` logged differs from the plan; empty when they agree."""
    wanted = Counter(planned_ranks(node, plan))
    said = Counter(parse_rank_lines(lines))
    if all(rank.ep is None for rank in wanted):
        # A mixture of experts logs the expert group that it has without expert parallel, too.
        said = Counter(replace(rank, ep=None) for rank in said.elements())
    # A container that docker restarted has logged its ranks before.
    more = [rank for rank in said if rank not in wanted]
    return [
        *(f"no worker says that it is {rank}" for rank in (wanted - said).elements()),
        *(f"a worker says that it is {rank}, which is not planned here" for rank in more),
    ]
