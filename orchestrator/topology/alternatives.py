"""Sizes that would work on these hosts, for the message that refuses others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from orchestrator.deployment import Deployment, Parallel
from orchestrator.recipes.resolved import ResolvedRecipe
from orchestrator.topology.engines import PREFILL_DECODE, STRATEGIES, asked_replicas
from orchestrator.topology.layout import Layout, Sizes, Slot
from orchestrator.topology.process_group import tensor_and_pipeline
from orchestrator.topology.sizes import UnworkableSizes
from orchestrator.topology.trial import Attempt, Trial

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class _Candidate:
    nodes: int
    tensor: int
    pipeline: int | None
    gpus: int


def with_alternatives(
    refusal: UnworkableSizes,
    recipe: ResolvedRecipe,
    slots: Sequence[Slot],
    deployment: Deployment,
    attempt: Attempt,
) -> UnworkableSizes:
    """The refusal with the nearest sizes of the same strategy that `attempt` can lay out.

    Of what the refusal itself offers only that is kept which can be laid out too.
    """
    trial = Trial(recipe, slots, deployment, attempt)
    found = nearest(trial)
    offered = [text for offer in refusal.offers if (text := trial.offered(offer))]
    hints = ["on these hosts: " + "; ".join(found)] if found else []
    if not found and not offered:
        hints = ["no sizes near these work on these hosts; see orc plan --suggest"]
    others = "; ".join([*offered, *([refusal.advice] if refusal.advice else [])])
    if others:
        hints.append(f"({others})" if hints else others)
    return UnworkableSizes(
        refusal.what, where=refusal.where, why=refusal.why, hint=" ".join(hints) or None
    )


def nearest(trial: Trial) -> list[str]:
    """Up to three sizes that work here, in words; those that use the most GPUs asked for first."""
    recipe, deployment = trial.recipe, trial.deployment
    name = recipe.strategy.name
    if name not in STRATEGIES and name != PREFILL_DECODE:
        return []
    found: list[str] = []
    seen: set[tuple[int, int, int]] = set()
    for candidate in _candidates(recipe, trial.slots, deployment):
        if len(found) == _SHOWN:
            break
        if not _thinkable(recipe, candidate):
            continue
        split = candidate.tensor if candidate.pipeline is None else 0
        if (candidate.nodes, candidate.gpus, split) in seen:
            continue
        asked = _asked(deployment, candidate, name)
        layout = trial.one_replica(asked, candidate.gpus)
        if layout is not None:
            layout = trial.all_replicas(_exact(asked, layout), candidate.gpus)
        if layout is None or layout.nodes_per_replica != candidate.nodes > 1:
            continue  # a dense model's data parallel becomes replicas of fewer nodes
        seen.add((candidate.nodes, candidate.gpus, split))
        text = _in_words(layout, _stages_are_asked_for(name))
        if text not in found:
            found.append(text)
    return found


def _stages_are_asked_for(strategy: str) -> bool:
    """Whether a single stage has to be said: the strategy itself makes a stage of every node."""
    rule = STRATEGIES.get(strategy)
    return rule is not None and rule.group is tensor_and_pipeline


def _thinkable(recipe: ResolvedRecipe, candidate: _Candidate) -> bool:
    """The plainest limits of the shape, so that large groups are not laid out in vain."""
    shape = recipe.shape
    if shape.attention_heads and shape.attention_heads % candidate.tensor:
        return False
    if shape.layers and (candidate.pipeline or 1) > shape.layers:
        return False
    return not (shape.experts and candidate.pipeline is None and candidate.gpus > shape.experts)


def _candidates(
    recipe: ResolvedRecipe, slots: Sequence[Slot], deployment: Deployment
) -> Iterator[_Candidate]:
    """Sizes by nearness: the GPUs that were asked for, the same nodes, few stages, wide tensors."""
    if not slots:
        return
    rule = STRATEGIES.get(recipe.strategy.name)
    asked = deployment.parallel
    nodes = _nodes_asked(recipe, len(slots), deployment)
    per_node = min(len(slot.gpus) for slot in slots[:nodes])
    context = asked.prefill_context or 1
    wanted = nodes * per_node
    if asked.tensor and asked.pipeline:
        wanted = asked.tensor * asked.pipeline * context
    counts = [nodes]
    if rule is not None and rule.multi_node:
        around = {nodes + step for step in range(-8, 9)} | {2 * nodes}
        around |= {nodes >> halvings for halvings in range(1, nodes.bit_length())}
        counts = sorted((n for n in around if 2 <= n <= len(slots)), key=lambda n: abs(n - nodes))
    candidates = [
        candidate
        for count in counts
        for candidate in (
            _data_parallel(count, per_node, context)
            if rule is None or rule.data_parallel
            else _one_group(count, per_node, context)
        )
    ]
    candidates.sort(
        key=lambda one: (
            abs(one.gpus - wanted),
            abs(one.nodes - nodes),
            one.pipeline or 1,
            abs(one.tensor - (asked.tensor or one.tensor)),
            -one.tensor,
        )
    )
    yield from candidates


def _one_group(nodes: int, per_node: int, context: int) -> Iterator[_Candidate]:
    """Tensor x pipeline on as many GPUs of every node, and two stages a node at most."""
    for gpus in range(per_node, 0, -1):
        total = nodes * gpus
        for pipeline in dict.fromkeys((1, 2, nodes, 2 * nodes)):
            if total % (pipeline * context) == 0:
                yield _Candidate(nodes, total // (pipeline * context), pipeline, total)


def _data_parallel(nodes: int, per_node: int, context: int) -> Iterator[_Candidate]:
    """Ranks of a tensor size that divides a node, on all GPUs."""
    for tensor in range(1, per_node + 1):
        if per_node % (tensor * context) == 0:
            yield _Candidate(nodes, tensor, None, nodes * per_node)


def _nodes_asked(recipe: ResolvedRecipe, hosts: int, deployment: Deployment) -> int:
    rule = STRATEGIES.get(recipe.strategy.name)
    if deployment.nodes:
        return min(deployment.nodes, hosts)
    if rule is None or not rule.multi_node:
        return 1
    replicas = asked_replicas(deployment)
    return min(max(hosts // (1 if replicas == "max" else replicas), 2), hosts)


def _asked(deployment: Deployment, candidate: _Candidate, strategy: str) -> Deployment:
    sizes = Parallel(
        tensor=candidate.tensor,
        pipeline=candidate.pipeline,
        prefill_context=deployment.parallel.prefill_context,
        decode_context=deployment.parallel.decode_context,
    )
    changed: dict[str, object] = {"parallel": sizes}
    if strategy != PREFILL_DECODE:
        changed["nodes"] = candidate.nodes
    return deployment.model_copy(update=changed)


def _exact(deployment: Deployment, layout: Layout) -> Deployment:
    """The deployment with every size that the layout's words name; pools have their own data."""
    if len(layout.sizes) > 1:
        return deployment
    data = layout.first_sizes.data
    parallel = deployment.parallel.model_copy(update={"data": data if data > 1 else None})
    return deployment.model_copy(update={"parallel": parallel})


def _in_words(layout: Layout, stages: bool) -> str:
    """`tensor 8 x pipeline 2 on 2 nodes (16 GPUs)`, of one replica."""
    gpus = sum(len(node.gpus) for node in layout.nodes if node.replica == 0)
    nodes = layout.nodes_per_replica
    sizes = "; ".join(
        (f"{pool} " if pool else "") + sizes_in_words(one, stages)
        for pool, one in layout.sizes.items()
    )
    return f"{sizes} on {nodes} node{'s' * (nodes > 1)} ({gpus} GPU{'s' * (gpus > 1)})"


def sizes_in_words(sizes: Sizes, stages: bool = False) -> str:
    """`tensor 8 x pipeline 2`: the tensor size, and the others where they are not 1.

    `stages`: the pipeline size in any case.
    """
    others = (
        ("pipeline", sizes.pipeline),
        ("data", sizes.data),
        ("prefill context", sizes.prefill_context),
        ("decode context", sizes.decode_context),
    )
    words = [f"tensor {sizes.tensor}"]
    words += [
        f"{name} {size}" for name, size in others if size > 1 or (stages and name == "pipeline")
    ]
    return " x ".join(words)
