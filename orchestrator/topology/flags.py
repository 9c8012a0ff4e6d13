"""Parallel and rank flags of one node, by vLLM's rules (vllm-facts, 0.33.0)."""

from __future__ import annotations

from orchestrator.topology.ranks import Sizes


def parallel_flags(sizes: Sizes) -> tuple[str, ...]:
    """Flags that every node of a replica shares."""
    flags = ["--tensor-parallel-size", str(sizes.tensor)]
    if sizes.pipeline > 1:
        flags += ["--pipeline-parallel-size", str(sizes.pipeline)]
    if sizes.decode_context > 1:
        flags += ["--decode-context-parallel-size", str(sizes.decode_context)]
    return tuple(flags)


def rank_flags(nodes: int, rank: int, head: str, master_port: int) -> tuple[str, ...]:
    """Flags that tell node `rank` of `nodes` where it stands; none for a single node.

    `--master-addr` is always given: its default, 127.0.0.1, fails late.
    """
    if nodes == 1:
        return ()
    flags = ["--nnodes", str(nodes), "--node-rank", str(rank)]
    flags += ["--master-addr", head, "--master-port", str(master_port)]
    flags += ["--distributed-executor-backend", "mp"]
    return (*flags, "--headless") if rank > 0 else tuple(flags)
