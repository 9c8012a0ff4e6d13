"""The ranks that vLLM gives each GPU."""

from __future__ import annotations

from functools import lru_cache

from orchestrator.topology.layout import GpuRank, Sizes


@lru_cache(maxsize=4096)  # replicas that are alike share their ranks
def gpu_ranks(
    sizes: Sizes, first: int, gpus: tuple[int, ...], stages: tuple[tuple[int, int], ...] | None
) -> tuple[GpuRank, ...]:
    """The ranks of one node's GPUs, whose world ranks are `first`, `first + 1`, ...

    Ranks run DP x PP x PCP x TP, TP fastest, and every node holds a contiguous block (0.33.0).
    The expert group is DP x PCP x TP of one stage. `stages`: the layers of each stage.
    """
    ranks = []
    for offset, gpu in enumerate(gpus):
        world = first + offset
        rest, tp = divmod(world, sizes.tensor)
        rest, pcp = divmod(rest, sizes.prefill_context)
        dp, pp = divmod(rest, sizes.pipeline)
        expert = (dp * sizes.prefill_context + pcp) * sizes.tensor + tp
        ranks.append(
            GpuRank(
                gpu=gpu,
                world=world,
                dp=dp,
                pp=pp,
                tp=tp,
                pcp=pcp,
                ep=expert if sizes.expert_parallel else 0,
                layers=stages[pp] if stages else None,
            )
        )
    return tuple(ranks)
