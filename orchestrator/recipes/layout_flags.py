"""Which parallel flags the layout of a strategy sets itself.

What a layer before the strategy says of such a flag is overridden by the strategy, as any later
layer overrides an earlier one; what a layer behind it says holds against the strategy.
"""

from __future__ import annotations

from orchestrator.recipes.flags import PARALLEL_FLAGS
from orchestrator.recipes.selection import PoolSelection
from orchestrator.recipes.taxonomy import StrategyFile

_RENDEZVOUS = frozenset(
    {"--nnodes", "--node-rank", "--master-addr", "--master-port", "--headless"}
    | {"--distributed-executor-backend"}
)
_TENSOR = frozenset({"--tensor-parallel-size"})
_DATA = frozenset(
    {
        "--data-parallel-size",
        "--data-parallel-size-local",
        "--data-parallel-address",
        "--data-parallel-rpc-port",
        "--data-parallel-start-rank",
    }
)


def layout_flags(strategy: StrategyFile, pool: PoolSelection | None = None) -> frozenset[str]:
    """The flags that the strategy's layout (of one pool under prefill/decode) sets."""
    if pool is not None:
        if pool.parallelism != "dep":
            return _TENSOR | _RENDEZVOUS
        return _DATA | {"--data-parallel-hybrid-lb"} | (_TENSOR if pool.tensor else frozenset())
    if strategy.deploy_type != "multi_node":
        return frozenset({strategy.parallel_flag})
    if strategy.parallel_flag == "--data-parallel-size":
        return _DATA
    if strategy.parallelism == "tp_dp":
        return _TENSOR | _DATA
    if strategy.parallelism == "tp_pp":
        return _TENSOR | _RENDEZVOUS | {"--pipeline-parallel-size"}
    return _TENSOR | _RENDEZVOUS


def constraint_flags(strategy: StrategyFile) -> frozenset[str]:
    """The flags that are constraints on the layout and no plain arguments.

    On one node there is nothing to join, so the executor's backend is the recipe's own business.
    """
    if strategy.deploy_type == "single_node":
        return PARALLEL_FLAGS - {"--distributed-executor-backend"}
    return PARALLEL_FLAGS
