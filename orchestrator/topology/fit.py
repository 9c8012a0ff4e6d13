"""Fits each replica's layers and sizes to the memory of its GPUs, while a layout is built."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from orchestrator.deployment import Deployment
from orchestrator.recipes.resolved import CommandParts, ModelShape, ResolvedRecipe
from orchestrator.topology.group import Group
from orchestrator.topology.layout import GpuMemory, Sizes
from orchestrator.topology.memory import (
    MemoryModel,
    Stage,
    check_memory,
    memory_model,
    overhead_of,
    stage_memory,
    stages_of,
)
from orchestrator.topology.pipeline import check_partition, split_by_memory, vllm_layer_split

# Stages whose memories differ by less are alike: drivers report a few percent less than is sold.
_ALIKE = 0.95


@dataclass(slots=True)
class MemoryFit:
    """The memory of all replicas of one deployment; replicas that are alike are reckoned once."""

    recipe: ResolvedRecipe
    deployment: Deployment
    _models: dict[str, MemoryModel | None] = field(default_factory=dict)
    _partitions: dict[object, tuple[int, ...] | None] = field(default_factory=dict)
    _replicas: dict[tuple[tuple[int, ...], tuple[float | None, ...]], list[int]] = field(
        default_factory=dict
    )
    _memory: list[GpuMemory] = field(default_factory=list)
    _notes: list[str] = field(default_factory=list)

    def partition(
        self, pool: str, parts: CommandParts, group: Group, replica: int
    ) -> tuple[int, ...] | None:
        """The layers of each stage of a replica's engine; None: vLLM's own split.

        The user's partition counts; else stages of different memory get layers in proportion.
        Raises PlanError for a wrong partition, UnworkableSizes when the weights cannot fit.
        """
        if pool not in self._models:
            self._models[pool] = memory_model(self.recipe, parts)
        model, stages = self._models[pool], stages_of(group)
        memory = tuple(stage.gpu_memory for stage in stages)
        key = (pool, group.sizes, memory)
        if key not in self._partitions:
            self._partitions[key] = self._reckon(pool, model, group.sizes, stages)
        partition = self._partitions[key]
        if partition and self.deployment.layer_partition is None:
            self._replicas.setdefault((partition, memory), []).append(replica)
        return partition

    def _reckon(
        self, pool: str, model: MemoryModel | None, sizes: Sizes, stages: Sequence[Stage]
    ) -> tuple[int, ...] | None:
        shape = self.recipe.shape
        partition = asked_partition(shape, sizes, self.deployment)
        if partition is None and self.deployment.layer_partition is None and model is not None:
            partition = memory_partition(shape, stages, model.utilization)
        if model is None:
            return partition
        split = partition
        if split is None and shape.layers is not None:
            split = vllm_layer_split(shape.layers, sizes.pipeline)
        found = stage_memory(model, sizes, stages, split, pool)
        self._notes += check_memory(
            model, found, self.recipe.model, insist=not self.deployment.check_memory
        )
        self._memory += found
        return partition

    @property
    def memory(self) -> tuple[GpuMemory, ...]:
        """One estimate for each kind of stage."""
        return tuple(self._memory)

    def notes(self) -> list[str]:
        """What a user should know: what is tight, and which layers were split by memory."""
        notes = list(dict.fromkeys(self._notes))
        for (partition, memory), replicas in self._replicas.items():
            shown = ", ".join(f"{gib:.0f}" for gib in memory if gib is not None)
            of = f"replica {replicas[0]}"
            if len(replicas) > 1:
                of = f"{len(replicas)} replicas from {replicas[0]} on"
            notes.append(
                f"layers {','.join(map(str, partition))} over the stages of {of}, in proportion "
                f"to the memory of their GPUs ({shown} GiB); layer_partition overrides it"
            )
        return notes


def asked_partition(
    shape: ModelShape, sizes: Sizes, deployment: Deployment
) -> tuple[int, ...] | None:
    """The user's layers of each stage where they differ from vLLM's own split, else None."""
    asked = deployment.layer_partition
    if asked is None:
        return None
    check_partition(asked, sizes.pipeline, shape.layers)
    if shape.layers is not None and asked == vllm_layer_split(shape.layers, sizes.pipeline):
        return None
    return asked


def memory_partition(
    shape: ModelShape, stages: Sequence[Stage], utilization: float
) -> tuple[int, ...] | None:
    """Layers in proportion to what each stage's GPUs have for weights and KV cache.

    None where the stages are alike, or the layers or a memory are not known (vllm#14763).
    """
    memory = [stage.gpu_memory for stage in stages if stage.gpu_memory is not None]
    if len(stages) < 2 or len(memory) < len(stages) or shape.layers is None:
        return None
    if min(memory) >= _ALIKE * max(memory):
        return None
    room = [max(gib * utilization - overhead_of(gib), 0.01) for gib in memory]
    split = split_by_memory(shape.layers, room)
    return None if split == vllm_layer_split(shape.layers, len(stages)) else split
