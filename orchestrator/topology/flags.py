"""Parallel and rank flags, by vLLM's rules (read in 0.33.0, measured on 0.32.0)."""

from __future__ import annotations

from orchestrator.topology.layout import Sizes


def size_flags(sizes: Sizes) -> tuple[str, ...]:
    """The sizes of one data-parallel rank, the same on every node.

    A tensor size of 1 is vLLM's default and is left out beside data parallel.
    """
    flags: list[str] = []
    if sizes.tensor > 1 or sizes.data == 1:
        flags += ["--tensor-parallel-size", str(sizes.tensor)]
    if sizes.pipeline > 1:
        flags += ["--pipeline-parallel-size", str(sizes.pipeline)]
    if sizes.prefill_context > 1:
        flags += ["--prefill-context-parallel-size", str(sizes.prefill_context)]
    if sizes.decode_context > 1:
        flags += ["--decode-context-parallel-size", str(sizes.decode_context)]
    return tuple(flags)


def node_flags(nodes: int, rank: int, head: str, master_port: int) -> tuple[str, ...]:
    """Where node `rank` of `nodes` stands in one process group over nodes.

    `--master-addr` is always given: its default, 127.0.0.1, fails late.
    """
    return (
        *("--nnodes", str(nodes), "--node-rank", str(rank)),
        *("--master-addr", head, "--master-port", str(master_port)),
        *("--distributed-executor-backend", "mp"),
    )


def data_flags(sizes: Sizes, head: str, rpc_port: int) -> tuple[str, ...]:
    """What every node of a data-parallel group over nodes is told."""
    return (
        *("--data-parallel-size", str(sizes.data)),
        *("--data-parallel-address", head, "--data-parallel-rpc-port", str(rpc_port)),
    )
