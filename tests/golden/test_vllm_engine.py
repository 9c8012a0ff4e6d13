"""What real vLLM makes of every golden plan's argument lists is what the plan says.

vLLM's own `serve` decides how each node starts, its engine arguments become the engine
configuration, and its process groups give the ranks; see `vllm_engine.py` for what is replaced
and what cannot be reached on a CPU. The version is 0.32.0; the rules compared here are those that
0.33.0 has too.
"""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Plan
from orchestrator.planning.launch_spec import LaunchSpec
from orchestrator.recipes.resolved import ModelShape
from orchestrator.topology.layout import GpuRank, Sizes
from tests.fleet.debian import install_debian_packages
from tests.fleet.environment import build_environment
from tests.golden.case import CASES, Case, catalog
from tests.golden.tiny_models import write_config

pytestmark = [pytest.mark.fleet, pytest.mark.vllm]

Answer = dict[str, Any]
TINY = ("--load-format", "dummy", "--dtype", "float32", "--max-model-len", "256")
PLANNED = [path for path in CASES if not path.stem.startswith("refused")]
MIXTURE = ModelShape(layers=4, attention_heads=16, kv_heads=4, experts=8)
DENSE = ModelShape(layers=4, attention_heads=16, kv_heads=4)
LATENT = ModelShape(layers=4, attention_heads=16, kv_heads=1, experts=8)
REMOTE = ("--data-parallel-address", "10.1.0.11")
SYNCHRONOUS = ("--eplb-config", '{"use_async": false}')  # else it needs NIXL, found elsewhere
ELASTIC = ("-dp", "4", "-ep", "--enable-eplb", "--enable-elastic-ep", *SYNCHRONOUS)
# What --enable-dbo is as well, which the CPU's platform takes back.
MICROBATCHES = ("-ep", "--ubatch-size", "2", "--all2all-backend", "deepep_low_latency")
MOONEP = ("--all2all-backend", "moonep", "--dtype", "bfloat16")

# What `orc` refuses or never renders, with vLLM's message or the mode that it takes it for.
WRONG: dict[str, tuple[ModelShape, tuple[str, ...], str]] = {
    "heads": (DENSE, ("-tp", "3"), "must be divisible by tensor parallel size"),
    "dense external": (DENSE, ("-dp", "4", "--data-parallel-rank", "1"), "Non-MoE models"),
    "decode context": (MIXTURE, ("-tp", "8", "-dcp", "4"), "exceeds the maximum"),
    "decode context of latent attention": (LATENT, ("-tp", "8", "-dcp", "3"), "divisible by dcp"),
    "experts of a dense model": (DENSE, ("-tp", "2", "--enable-expert-parallel"), "greater than 0"),
    "nodes that do not divide": (MIXTURE, ("-tp", "2", "--nnodes", "3"), "evenly divide"),
    "headless hybrid": (
        MIXTURE,
        ("-dp", "4", "-dpl", "2", *REMOTE, "-dph", "--headless"),
        "not applicable in headless mode",
    ),
    "a start rank that serves": (
        MIXTURE,
        ("-dp", "4", "-dpl", "2", *REMOTE, "-dpr", "0"),
        "data_parallel_hybrid_lb",
    ),
    "one dense rank on a hybrid node": (
        DENSE,
        ("-dp", "2", "-dpl", "1", *REMOTE, "-dph", "-dpr", "0"),
        "data_parallel_external_lb",
    ),
    "balanced experts that are cut": (MIXTURE, ("-tp", "2", "--enable-eplb"), "must be True"),
    "balanced experts on one rank": (MIXTURE, ("-ep", "--enable-eplb"), "EPLB requires tensor"),
    "redundant experts without balancing": (
        MIXTURE,
        ("-tp", "2", "-ep", "--eplb-config", '{"num_redundant_experts": 2}'),
        "EPLB is not enabled",
    ),
    "asynchronous balancing over NCCL": (
        MIXTURE,
        ("-tp", "2", "-ep", "--enable-eplb", "--eplb-config", '{"communicator": "pynccl"}'),
        "SystemExit: 2",  # the parser's own way to say so
    ),
    "elastic without balancing": (
        MIXTURE,
        ("-dp", "2", "-ep", "--enable-elastic-ep"),
        "enable_eplb=True",
    ),
    "elastic stages": (MIXTURE, (*ELASTIC, "-pp", "2"), "not supported with pipeline"),
    "elastic hybrid": (MIXTURE, (*ELASTIC, "-dpl", "2", "-dph", *REMOTE), "hybrid_lb"),
    "elastic external": (MIXTURE, (*ELASTIC, "--data-parallel-rank", "0"), "external_lb"),
    "less than the ranks at most": (
        MIXTURE,
        (*ELASTIC, "--elastic-ep-max-dp-size", "2"),
        "greater than or equal to",
    ),
    "NUMA nodes without binding": (
        DENSE,
        ("--numa-bind-nodes", "0", "1"),
        "require numa_bind",
    ),
    "NUMA cores without binding": (DENSE, ("--numa-bind-cpus", "0-3"), "require numa_bind"),
    "faults tolerated behind one endpoint": (
        MIXTURE,
        ("-dp", "2", "--enable-fault-tolerance"),
        "requires external load balancer",
    ),
    "microbatches by all-gather": (
        MIXTURE,
        ("-dp", "2", "-ep", "--ubatch-size", "2"),
        "allgather_reducescatter is not supported",
    ),
    "microbatches of less than two tokens": (
        MIXTURE,
        ("-dp", "2", *MICROBATCHES, "--dbo-decode-token-threshold", "1"),
        "at least the number of microbatches",
    ),
    "microbatches of prefill context": (
        LATENT,
        ("-tp", "2", "-pcp", "2", *MICROBATCHES),
        "does not support: prefill context parallel",
    ),
    "moonep with balancing": (
        MIXTURE,
        ("-dp", "2", "-ep", "--enable-eplb", *MOONEP),
        "does not support EPLB",
    ),
    "moonep in turns": (
        MIXTURE,
        ("-dp", "2", "-ep", *MOONEP, "--expert-placement-strategy", "round_robin"),
        "requires linear expert placement",
    ),
    "routed experts of stages": (
        MIXTURE,
        ("-pp", "2", "--enable-return-routed-experts"),
        "incompatible with pipeline parallelism",
    ),
    "routed experts of decode context": (
        MIXTURE,
        ("-tp", "8", "-dcp", "2", "--enable-return-routed-experts"),
        "incompatible with context parallelism",
    ),
}


@dataclass(frozen=True)
class Planned:
    """A case's plan and what vLLM says of each of its nodes."""

    plan: Plan
    answers: tuple[Answer, ...]

    def engines(self) -> Iterable[tuple[Sizes, list[tuple[LaunchSpec, Answer]]]]:
        """Each parallel group with its nodes, rank 0 first."""
        groups: dict[tuple[int, str], list[tuple[LaunchSpec, Answer]]] = defaultdict(list)
        for spec, answer in zip(self.plan.nodes, self.answers, strict=True):
            pool: str = spec.role if spec.role in self.plan.layout.sizes else ""
            groups[spec.replica, pool].append((spec, answer))
        for (_, pool), nodes in groups.items():
            # The layout tells the first replica's; those on uneven hosts have other ranks.
            data = len({rank.dp for spec, _ in nodes for rank in spec.ranks})
            yield replace(self.plan.layout.sizes[pool], data=data), nodes


def ask_vllm(python: Path, lists: Sequence[dict[str, Any]]) -> list[Answer]:
    done = subprocess.run(
        [python, Path(__file__).with_name("vllm_engine.py")],
        input=json.dumps(lists),
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answers: list[Answer] = json.loads(done.stdout)
    return answers


def question(spec: LaunchSpec, model: Path) -> dict[str, Any]:
    """The node's arguments for a tiny model of the shape, and what of its environment matters."""
    env = {k: v for k, v in spec.env.items() if k == "VLLM_PP_LAYER_PARTITION"}
    return {"argv": [str(model), *spec.argv[3:], *TINY], "env": env}


@pytest.fixture(scope="module")
def vllm(
    fleet_machine: None, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Planned], dict[str, Answer]]:
    """The planned cases by name, and vLLM's answers to the wrong lists."""
    install_debian_packages()
    python = build_environment() / "bin" / "python"
    directory = tmp_path_factory.mktemp("models")
    plans: dict[str, Plan] = {}
    asked: dict[str, list[str]] = {}
    unique: dict[str, dict[str, Any]] = {}
    for path in PLANNED:
        case = Case.read(path)
        made = case.plan(directory)
        recipe = catalog().resolve(case.deployment, made.hardware, nodes=case.deployment.nodes)
        model = write_config(recipe.shape, directory)
        questions = [question(spec, model) for spec in made.nodes]
        unique |= {json.dumps(given): given for given in questions}
        plans[case.name] = made
        asked[case.name] = [json.dumps(given) for given in questions]
    wrong = [
        {"argv": [str(write_config(shape, directory)), *TINY, *words], "env": {}}
        for shape, words, _ in WRONG.values()
    ]
    answers = ask_vllm(python, [*unique.values(), *wrong])
    known = dict(zip(unique, answers, strict=False))
    planned = {
        name: Planned(made, tuple(known[text] for text in asked[name]))
        for name, made in plans.items()
    }
    return planned, dict(zip(WRONG, answers[len(unique) :], strict=True))


@pytest.mark.parametrize("name", [path.stem for path in PLANNED])
def test_vllm_computes_what_the_plan_says(
    vllm: tuple[dict[str, Planned], dict[str, Answer]], name: str
) -> None:
    planned = vllm[0][name]
    for sizes, nodes in planned.engines():
        for spec, answer in nodes:
            assert "error" not in answer, f"{spec.name}: {answer['error']}"
            assert answer["workers"] == [worker(rank, sizes, answer) for rank in spec.ranks]
            assert (answer["kind"] == "serves") == (spec.port is not None), spec.name
            expected = configuration(spec, nodes, sizes)
            found = {key: answer["parallel"][key] for key in expected}
            assert found == expected, spec.name
        check_engines(sizes, nodes)


def worker(rank: GpuRank, sizes: Sizes, answer: Answer) -> dict[str, Any]:
    """The ranks of one GPU; what the plan does not say (expert ranks without expert parallel,
    layers of an unknown model, decode context ranks) is taken from vLLM."""
    theirs: dict[str, Any] = next((w for w in answer["workers"] if w["world"] == rank.world), {})
    ours: dict[str, Any] = {
        "world": rank.world,
        "dp": rank.dp,
        "pp": rank.pp,
        "pcp": rank.pcp,
        "tp": rank.tp,
    }
    if sizes.expert_parallel:
        ours["ep"] = rank.ep
    if rank.layers:
        ours["layers"] = list(rank.layers)
    return {**theirs, **ours}


def configuration(
    spec: LaunchSpec, nodes: list[tuple[LaunchSpec, Answer]], sizes: Sizes
) -> dict[str, Any]:
    """The engine configuration that the plan means this node to have."""
    head = nodes[0][0]
    unit = sizes.world // sizes.data
    local = len({rank.dp for rank in spec.ranks})
    endpoints = sum(other.port is not None for other, _ in nodes)
    joined = len(nodes) > 1 and "master" in head.ports  # one process group over the nodes
    within = unit // len(spec.gpus) if joined else 1
    own = sizes.data > 1 and endpoints > 1  # each endpoint has its own ranks alone
    expected: dict[str, Any] = {
        "tensor_parallel_size": sizes.tensor,
        "pipeline_parallel_size": sizes.pipeline,
        "prefill_context_parallel_size": sizes.prefill_context,
        "decode_context_parallel_size": sizes.decode_context,
        "data_parallel_size": sizes.data,
        "enable_expert_parallel": sizes.expert_parallel,
        "world_size": unit,
        "world_size_across_dp": sizes.world,
        "data_parallel_rank": spec.ranks[0].dp,
        "data_parallel_size_local": local,
        "local_world_size": len(spec.gpus) // local,
        "local_engines_only": own,
        "data_parallel_external_lb": own and local == 1,
        "data_parallel_hybrid_lb": own and local > 1,
        "nnodes": len(nodes) if joined else 1,
        "node_rank": spec.rank if joined else 0,
        "nnodes_within_dp": within,
        "node_rank_within_dp": spec.rank % within,
    }
    if joined:
        expected |= {"master_addr": head.address, "master_port": head.ports["master"]}
        expected["distributed_executor_backend"] = "mp"
    if sizes.data > 1 and len(nodes) > 1:
        expected["data_parallel_master_ip"] = head.address
        expected["data_parallel_rpc_port"] = head.ports["data_parallel_rpc"]
    return expected


def check_engines(sizes: Sizes, nodes: list[tuple[LaunchSpec, Answer]]) -> None:
    """Every data-parallel rank's engine is started once, and its front end waits for it.

    Rank 0's front end shakes hands with all of them, the others with their own.
    """
    started = [engine for _, answer in nodes for engine in answer["engines"]]
    assert sorted(started) == list(range(sizes.data))
    for spec, answer in nodes:
        first = spec.ranks[0]
        follower = (first.tp, first.pp, first.pcp) != (0, 0, 0)
        assert (answer["kind"] == "follower") == follower, spec.name
        if spec.port is not None:
            everyone = list(range(sizes.data))
            assert answer["awaited"] == (everyone if spec.rank == 0 else answer["engines"])


@pytest.mark.parametrize("name", list(WRONG))
def test_vllm_does_not_start_what_is_never_planned(
    vllm: tuple[dict[str, Planned], dict[str, Answer]], name: str
) -> None:
    answer = vllm[1][name]
    words = WRONG[name][2]
    assert words in answer.get("error", "") or answer.get("parallel", {}).get(words), answer
