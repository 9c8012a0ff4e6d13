"""What vLLM refuses of an engine's arguments, by themselves or together with its parallel sizes.

Read in vLLM 0.32.0: ParallelConfig and EPLBConfig (their validators and `__post_init__`),
VllmConfig.__post_init__ with `_validate_v1_model_runner`, AsyncEngineArgs.create_engine_config.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from orchestrator.errors import PlanError
from orchestrator.recipes.arguments import json_of
from orchestrator.recipes.resolved import CommandParts, ModelShape, ResolvedRecipe
from orchestrator.topology.group import Group
from orchestrator.topology.layout import Sizes
from orchestrator.topology.prefill_context import check_prefill_context
from orchestrator.topology.sizes import UnworkableSizes

_OVERLAP_BACKENDS = ("deepep_low_latency", "deepep_high_throughput", "nixl_ep")
_UNQUANTIZED = {None, "bf16"}

# An argument that needs another one, and how to give it.
_NEEDS = (
    (
        "--enable-eplb",
        "--enable-expert-parallel",
        "take a strategy with expert parallel (tep, dep), or args: {enable-expert-parallel: true}",
    ),
    ("--enable-elastic-ep", "--enable-eplb", "args: {enable-eplb: true}, or leave it out"),
    ("--numa-bind-nodes", "--numa-bind", "args: {numa-bind: true}, or leave it out"),
    ("--numa-bind-cpus", "--numa-bind", "args: {numa-bind: true}, or leave it out"),
)
# An argument, and the parallel sizes that have to be 1 beside it.
_ALONE = (
    ("--enable-elastic-ep", ("pipeline",)),
    ("--enable-hc-sp", ("pipeline",)),
    ("--enable-return-routed-experts", ("pipeline", "prefill_context", "decode_context")),
    ("--attention-config.hisparse_config", ("pipeline", "decode_context")),
    ("--speculative-config.enable_adaptive_verification", ("pipeline",)),
    ("--enable-dbo", ("prefill_context",)),
)


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """One engine as vLLM gets to know it: its arguments, its sizes and what its model is."""

    parts: CommandParts
    sizes: Sizes
    model: str
    shape: ModelShape
    precision: str | None = None
    brand: str = "NVIDIA"
    generation: str = ""  # of the accelerators, such as hopper, cpu, tpu
    own_endpoints: bool = False  # hybrid or external load balancing
    external: bool = False

    @classmethod
    def of(cls, recipe: ResolvedRecipe, parts: CommandParts, group: Group) -> EngineConfig:
        """The engine of `group`, whose members' flags say how requests are spread."""
        flags = group.members[0].flags  # all of a group are balanced alike
        external = "--data-parallel-rank" in flags
        return cls(
            parts,
            group.sizes,
            recipe.model,
            recipe.shape,
            recipe.precision,
            recipe.hardware.brand,
            recipe.hardware.generation,
            own_endpoints=external or "--data-parallel-hybrid-lb" in flags,
            external=external,
        )


def check_engine_config(engine: EngineConfig) -> None:
    """Refuse what vLLM's configuration refuses. Raises PlanError with the rule and the mend."""
    for refusal in (*_missing(engine.parts), *_not_alone(engine)):
        raise refusal
    _check_load_balancer_of_experts(engine)
    _check_elastic(engine)
    _check_fault_tolerance(engine)
    _check_overlap(engine)
    _check_moonep(engine)
    check_prefill_context(
        engine.parts, engine.sizes, engine.shape, engine.model, amd=engine.brand == "AMD"
    )


def _missing(parts: CommandParts) -> Iterator[PlanError]:
    for flag, needed, hint in _NEEDS:
        if parts.has(flag) and not parts.has(needed):
            yield PlanError(f"{flag} needs {needed}", why="vLLM refuses it alone", hint=hint)


def _not_alone(engine: EngineConfig) -> Iterator[PlanError]:
    for name, sizes in _ALONE:
        flag, _, key = name.partition(".")
        said = json_of(engine.parts.arguments, flag)
        on = said.get(key) if key else engine.parts.has(flag)
        for size in sizes if on else ():
            if flag == "--enable-hc-sp" and engine.sizes.tensor == 1:
                continue
            if (found := getattr(engine.sizes, size)) > 1:
                words = size.replace("_", " ")
                yield PlanError(
                    f"{name} does not go with {words} {found}",
                    why=f"vLLM refuses it with a {words} size above 1",
                    hint=f"leave {name} out, or make {words} 1",
                )


def _check_load_balancer_of_experts(engine: EngineConfig) -> None:
    """Expert load balancing: somewhere to move experts to, and a device that can."""
    parts, sizes = engine.parts, engine.sizes
    said = json_of(parts.arguments, "--eplb-config")
    redundant = said.get("num_redundant_experts")
    if not parts.has("--enable-eplb"):
        if redundant not in (None, 0, "0"):
            raise PlanError(
                f"--eplb-config says num_redundant_experts = {redundant}, without --enable-eplb",
                why="redundant experts belong to expert load balancing",
                hint="args: {enable-eplb: true}, or leave num_redundant_experts out",
            )
        return
    if engine.generation in ("cpu", "tpu"):
        raise PlanError(
            f"--enable-eplb on a {engine.generation.upper()}",
            why="vLLM balances experts on CUDA, ROCm and XPU only",
            hint="leave --enable-eplb out",
        )
    if sizes.tensor * sizes.prefill_context * sizes.data == 1:
        raise UnworkableSizes(
            "expert load balancing over 1 rank: tensor 1 x prefill context 1 x data 1 = 1",
            why="there is no other rank to move experts to",
            hint="a larger tensor or data size, or leave --enable-eplb out",
        )
    communicator = said.get("communicator")
    waits = said.get("use_async") in (False, "false", "False")
    if communicator in ("torch_nccl", "pynccl") and not waits:
        raise PlanError(
            f"--eplb-config says communicator = {communicator}, with use_async",
            why="NCCL does not go with asynchronous balancing (vLLM has it on by default)",
            hint="communicator: torch_gloo or nixl, or use_async: false",
        )


def _check_elastic(engine: EngineConfig) -> None:
    if not engine.parts.has("--enable-elastic-ep"):
        return
    if engine.own_endpoints:
        raise PlanError(
            "--enable-elastic-ep does not go with hybrid or external load balancing",
            why="one API server adds and removes the ranks",
            hint="load_balancing: internal, or leave --enable-elastic-ep out",
        )
    most, data = engine.parts.value("--elastic-ep-max-dp-size"), engine.sizes.data
    if most and most.isdecimal() and int(most) < data:
        raise UnworkableSizes(
            f"--elastic-ep-max-dp-size {most} is less than the {data} data-parallel ranks to "
            "start with",
            hint=f"elastic-ep-max-dp-size: {data} at least, or fewer ranks",
        )


def _check_fault_tolerance(engine: EngineConfig) -> None:
    if engine.parts.has("--enable-fault-tolerance") and not engine.external:
        raise PlanError(
            "--enable-fault-tolerance needs external load balancing",
            why="vLLM starts it with one server for each data-parallel rank only",
            hint="load_balancing: external under a strategy with data parallel, or leave it out",
        )


def _check_overlap(engine: EngineConfig) -> None:
    """Dual batch overlap and microbatches: by few all-to-all backends, of a token each at least."""
    parts = engine.parts
    number = 2 if parts.has("--enable-dbo") else _number(parts.value("--ubatch-size"), 0)
    if number < 2:
        return
    flag = "--enable-dbo" if parts.has("--enable-dbo") else f"--ubatch-size {number}"
    backend = parts.value("--all2all-backend") or "allgather_reducescatter"
    if backend not in _OVERLAP_BACKENDS:
        raise PlanError(
            f"{flag} does not go with the all-to-all backend {backend}",
            why=f"vLLM overlaps batches with {', '.join(_OVERLAP_BACKENDS)} only",
            hint="args: {all2all-backend: deepep_low_latency}, or another of them",
        )
    if flag != "--enable-dbo" and engine.sizes.prefill_context > 1:
        raise PlanError(
            f"{flag} does not go with prefill context {engine.sizes.prefill_context}",
            why="vLLM's model runner with microbatches has no prefill context parallel",
            hint="leave one of them out",
        )
    for kind, default in (("decode", 32), ("prefill", 512)):
        threshold = _number(parts.value(f"--dbo-{kind}-token-threshold"), default)
        if threshold < number:
            raise PlanError(
                f"--dbo-{kind}-token-threshold {threshold} is less than the {number} microbatches",
                why="a smaller batch cannot be split into them",
                hint=f"dbo-{kind}-token-threshold: {number} at least",
            )


def _check_moonep(engine: EngineConfig) -> None:
    """The all-to-all backend moonep holds whole experts in a layout of its own."""
    parts = engine.parts
    if parts.value("--all2all-backend") != "moonep":
        return
    placement = parts.value("--expert-placement-strategy") or "linear"
    quantization = parts.value("--quantization") or engine.precision
    fault = None
    if parts.has("--enable-eplb"):
        fault = "--enable-eplb"
    elif placement != "linear":
        fault = f"--expert-placement-strategy {placement}"
    elif quantization not in _UNQUANTIZED:
        fault = f"{quantization} weights"
    if fault:
        raise PlanError(
            f"the all-to-all backend moonep does not go with {fault}",
            why="it takes bf16 weights in linear placement, without expert load balancing",
            hint="another all2all-backend",
        )


def _number(text: str | None, default: int) -> int:
    return int(text) if text and text.isdecimal() else default
