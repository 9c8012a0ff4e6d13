"""The flags of `vllm serve`: all of them, their short forms, and those that are a layout.

All flags are in FLAGS_FILE, a line each in the long form, as the parser of FLAGS_VERSION has them.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

FLAGS_VERSION = "0.32.0"
FLAGS_FILE = Path(__file__).with_name(f"vllm-{FLAGS_VERSION}-flags.txt")

# Short forms of vllm serve (vllm/engine/arg_utils.py). `-O3` is handled apart.
ALIASES = {
    "-tp": "--tensor-parallel-size",
    "-pp": "--pipeline-parallel-size",
    "-dp": "--data-parallel-size",
    "-dpn": "--data-parallel-rank",
    "-dpr": "--data-parallel-start-rank",
    "-dpl": "--data-parallel-size-local",
    "-dpa": "--data-parallel-address",
    "-dpp": "--data-parallel-rpc-port",
    "-dpb": "--data-parallel-backend",
    "-dph": "--data-parallel-hybrid-lb",
    "-dpe": "--data-parallel-external-lb",
    "-pcp": "--prefill-context-parallel-size",
    "-dcp": "--decode-context-parallel-size",
    "-ep": "--enable-expert-parallel",
    "-n": "--nnodes",
    "-r": "--node-rank",
    "-q": "--quantization",
    "-sc": "--speculative-config",
    "-cc": "--compilation-config",
    "-ac": "--attention-config",
    "-dc": "--diffusion-config",
    "-asc": "--api-server-count",
    "-dpm": "--data-parallel-multi-port-external-lb",
    "--device-memory-utilization": "--gpu-memory-utilization",
    "-O": "--optimization-level",
}

# Which rank runs where: these belong to the topology, and what a recipe says of them is a
# constraint on it. --enable-expert-parallel is not among them: it is no size of its own (the
# experts are spread over the ranks there are), and strategies give it as a plain argument.
PARALLEL_FLAGS = frozenset(
    {
        "--tensor-parallel-size",
        "--pipeline-parallel-size",
        "--prefill-context-parallel-size",
        "--decode-context-parallel-size",
        "--data-parallel-size",
        "--data-parallel-size-local",
        "--data-parallel-rank",
        "--data-parallel-start-rank",
        "--data-parallel-address",
        "--data-parallel-rpc-port",
        "--data-parallel-backend",
        "--data-parallel-hybrid-lb",
        "--data-parallel-external-lb",
        "--data-parallel-multi-port-external-lb",
        "--nnodes",
        "--node-rank",
        "--master-addr",
        "--master-port",
        "--headless",
        "--distributed-executor-backend",
    }
)

SIZE_FLAGS = frozenset(
    {
        "--tensor-parallel-size",
        "--pipeline-parallel-size",
        "--prefill-context-parallel-size",
        "--decode-context-parallel-size",
        "--data-parallel-size",
    }
)
# What differs from node to node, or joins them: nobody but the topology can know it.
NODE_FLAGS = frozenset(
    {
        "--data-parallel-size-local",
        "--data-parallel-rank",
        "--data-parallel-start-rank",
        "--data-parallel-address",
        "--data-parallel-rpc-port",
        "--nnodes",
        "--node-rank",
        "--master-addr",
        "--master-port",
        "--headless",
    }
)


@cache
def serve_flags() -> frozenset[str]:
    """Every flag of `vllm serve` in its long form."""
    return frozenset(FLAGS_FILE.read_text().split())


@cache
def meant_by(name: str) -> tuple[str, ...]:
    """The flags and short forms that a name stands for: itself where it is one, else all that
    begin with it. vLLM's parser takes an abbreviation of one, and refuses that of several
    (argparse's allow_abbrev, 0.32.0)."""
    known = serve_flags() | ALIASES.keys()
    return (name,) if name in known else tuple(sorted(one for one in known if one.startswith(name)))
