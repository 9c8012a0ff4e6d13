"""Runs in an environment that has vLLM: what vLLM itself makes of argument lists.

Reads a JSON list of {"argv": [MODEL, "--flag", ...], "env": {...}} on stdin and writes for each
what `vllm serve` would start: the real command decides how to start, the real engine arguments
become the real engine configuration, and the real launcher decides which engines it starts and
which it waits for. Replaced are only the ends: processes, sockets and the distributed store.

Not reached on a CPU: the check of a world size against the visible GPUs
(`ParallelConfig.__post_init__`, CUDA only) and what the CUDA platform changes of a configuration.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from types import SimpleNamespace
from typing import Any
from unittest import mock

# vLLM logs to stdout while it is imported; stdout is for the answer alone.
answer = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

import torch  # noqa: E402
from vllm import platforms  # noqa: E402
from vllm.config import VllmConfig, set_current_vllm_config  # noqa: E402
from vllm.config import parallel as parallel_config  # noqa: E402
from vllm.config import vllm as vllm_config  # noqa: E402
from vllm.distributed import parallel_state, utils  # noqa: E402
from vllm.engine.arg_utils import AsyncEngineArgs  # noqa: E402
from vllm.entrypoints.cli import serve  # noqa: E402
from vllm.entrypoints.launchers.cli_args import make_arg_parser  # noqa: E402
from vllm.usage.usage_lib import UsageContext  # noqa: E402
from vllm.utils.argparse_utils import FlexibleArgumentParser  # noqa: E402
from vllm.v1.engine import utils as engine_utils  # noqa: E402

PARSER = make_arg_parser(FlexibleArgumentParser(prog="vllm serve"))
GROUPS = ("tp", "pp", "pcp", "dcp", "dp", "ep")
PARALLEL = (
    *("tensor_parallel_size", "pipeline_parallel_size", "prefill_context_parallel_size"),
    *("decode_context_parallel_size", "data_parallel_size", "data_parallel_size_local"),
    *("data_parallel_rank", "data_parallel_external_lb", "data_parallel_hybrid_lb"),
    *("local_engines_only", "nnodes", "node_rank", "nnodes_within_dp", "node_rank_within_dp"),
    *("world_size", "local_world_size", "world_size_across_dp", "master_addr", "master_port"),
    *("data_parallel_master_ip", "data_parallel_rpc_port", "enable_expert_parallel"),
    "distributed_executor_backend",
)


class Accelerated:
    """The platform, as if its devices were such as expert load balancing runs on."""

    def __getattr__(self, name: str) -> Any:
        return getattr(platforms.current_platform, name)

    def is_cuda_alike(self) -> bool:
        return True


class Started:
    """What one `vllm serve` starts instead of processes."""

    def __init__(self) -> None:
        self.kind = ""
        self.config: VllmConfig | None = None
        self.engines: list[int] = []  # data-parallel ranks whose engine is started here
        self.awaited: list[int] = []  # those that the front end here waits for

    def follower(self, config: VllmConfig, **_: Any) -> mock.Mock:
        self.kind, self.config = "follower", config
        return mock.Mock()

    def engine_processes(self, **given: Any) -> mock.Mock:
        self.kind, self.config = self.kind or "engines", given["vllm_config"]
        first = given["start_index"]
        self.engines = list(range(first, first + given["local_engine_count"]))
        return mock.Mock()

    def front_end(self, config: VllmConfig, executor: Any, stats: Any, addresses: Any) -> Any:
        """The real launcher of engines, in front of which API servers stand."""
        self.kind, self.config = "serves", config
        return engine_utils.launch_core_engines(config, executor, stats, addresses)

    def wait(self, socket: Any, engines: Any, *_: Any) -> None:
        self.awaited = [int.from_bytes(engine.identity, "little") for engine in engines]

    async def one_server(self, args: Any) -> None:
        """`run_server` as far as the configuration (`build_async_engine_client_from_engine_args`)
        and the engines (`MPClient`)."""
        config = AsyncEngineArgs.from_cli_args(args).create_engine_config(
            usage_context=UsageContext.OPENAI_API_SERVER
        )
        parallel = config.parallel_config
        assert parallel.local_engines_only or parallel.data_parallel_rank == 0
        with self.front_end(config, None, False, mock.Mock()):
            pass


def needs_runner_v2(args: Any) -> bool:
    return bool(args.prefill_context_parallel_size > 1 or args.enable_return_routed_experts)


def start(argv: list[str]) -> Started:
    """Let the real `vllm serve` start `argv`, up to its processes."""
    args = PARSER.parse_args(argv)
    command, started = serve.ServeSubcommand(), Started()
    command.validate(args)
    listeners = SimpleNamespace(addresses=mock.Mock(), inputs=[], outputs=[])
    store = SimpleNamespace(port=1)
    coordinator = mock.Mock()
    coordinator.return_value.get_engine_socket_addresses.return_value = ("", "")
    with contextlib.ExitStack() as stack:
        for place, name, value in (
            # As on a machine with GPUs: prefill context parallel needs the runner that needs it.
            # As do routed experts.
            (vllm_config, "HAS_TRITON", needs_runner_v2(args)),
            (parallel_config, "current_platform", Accelerated()),
            (serve, "MultiprocExecutor", started.follower),
            (serve, "CoreEngineProcManager", started.engine_processes),
            (serve, "run_server", started.one_server),
            (serve, "setup_server", lambda *_, **__: (None, None)),
            (serve, "setup_multiprocess_prometheus", mock.Mock()),
            (serve, "launch_core_engines", started.front_end),
            (serve, "APIServerProcessManager", mock.Mock()),
            (serve, "wait_for_completion_or_failure", mock.Mock()),
            (engine_utils, "bind_engine_zmq_listeners", lambda *_: listeners),
            (engine_utils, "CoreEngineProcManager", started.engine_processes),
            (engine_utils, "DPCoordinator", coordinator),
            (engine_utils, "zmq_socket_ctx", lambda *_, **__: contextlib.nullcontext()),
            (engine_utils, "wait_for_engine_startup", started.wait),
            (utils, "create_tcp_store", lambda *_, **__: store),
        ):
            stack.enter_context(mock.patch.object(place, name, value))
        command.cmd(args)
    return started


def groups(config: VllmConfig) -> dict[str, list[list[int]]]:
    """The process groups that vLLM's workers make, as lists of ranks."""
    made: dict[str, list[list[int]]] = {}

    def group(ranks: list[list[int]], *_: Any, group_name: str, **__: Any) -> Any:
        made[group_name] = ranks
        return mock.MagicMock()

    parallel = config.parallel_config
    world = mock.Mock(local_rank=0)
    names = ("_TP", "_ETP", "_ENGRAM_DP", "_DCP", "_PCP", "_PP", "_DP", "_EP", "_EPLB")
    with contextlib.ExitStack() as stack:
        stack.enter_context(set_current_vllm_config(config))
        for name in names:
            stack.enter_context(mock.patch.object(parallel_state, name, None))
        stack.enter_context(mock.patch.object(parallel_state, "init_model_parallel_group", group))
        stack.enter_context(mock.patch.object(parallel_state, "get_world_group", lambda: world))
        for name, value in (
            ("is_initialized", True),
            ("get_world_size", parallel.world_size_across_dp),
            ("get_rank", 0),
        ):
            stack.enter_context(
                mock.patch.object(torch.distributed, name, mock.Mock(return_value=value))
            )
        parallel_state.initialize_model_parallel(
            parallel.tensor_parallel_size,
            parallel.pipeline_parallel_size,
            parallel.prefill_context_parallel_size,
            parallel.decode_context_parallel_size,
            backend="gloo",
        )
    return made


def worker_ranks(started: Started, config: VllmConfig) -> list[int]:
    """World ranks of the workers here: `MultiprocExecutor._init_executor` counts them from
    local world size x node rank, `init_distributed_environment` adds data-parallel rank x world
    size."""
    parallel = config.parallel_config
    first = parallel.local_world_size * parallel.node_rank_within_dp
    return [
        rank * parallel.world_size + first + local
        for rank in started.engines or [parallel.data_parallel_rank]
        for local in range(parallel.local_world_size)
    ]


def describe(started: Started) -> dict[str, Any]:
    config = started.config
    assert config is not None
    parallel = config.parallel_config
    made = groups(config)
    layers = config.model_config.model_arch_config.total_num_hidden_layers
    stages = parallel.pipeline_parallel_size
    workers = []
    for rank in worker_ranks(started, config):
        within = {
            name: next(group.index(rank) for group in made[name] if rank in group)
            for name in GROUPS
            if name in made
        }
        span = utils.get_pp_indices(layers, within["pp"], stages)
        workers.append({"world": rank, **within, "layers": span})
    return {
        "kind": started.kind,
        "engines": started.engines,
        "awaited": started.awaited,
        "workers": workers,
        "parallel": {name: getattr(parallel, name) for name in PARALLEL},
    }


def answer_for(given: dict[str, Any]) -> dict[str, Any]:
    with mock.patch.dict(os.environ, given["env"]):
        try:
            return describe(start(given["argv"]))
        except (Exception, SystemExit) as error:
            return {"error": f"{type(error).__name__}: {error}"[-1500:]}


json.dump([answer_for(given) for given in json.load(sys.stdin)], answer)
