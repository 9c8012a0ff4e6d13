"""Whether a setting that a refusal would name can really be planned: it is tried first."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from orchestrator.deployment import Deployment
from orchestrator.errors import PlanError
from orchestrator.recipes.arguments import json_of, without
from orchestrator.recipes.resolved import Argument, CommandParts, ResolvedRecipe
from orchestrator.topology.engines import asked_replicas
from orchestrator.topology.layout import Layout, Slot
from orchestrator.topology.sizes import Offer, around, listed

Attempt = Callable[[ResolvedRecipe, Sequence[Slot], Deployment], Layout]

_GPUS_TRIED = 65536  # over all attempts, so that a refusal is quick whatever the fleet


@dataclass(slots=True)
class Trial:
    """A selection that was refused, and what it would be with other settings.

    What is laid out is what a plan would be, all replicas included.
    """

    recipe: ResolvedRecipe
    slots: Sequence[Slot]
    deployment: Deployment
    attempt: Attempt
    left: int = _GPUS_TRIED

    def one_replica(self, deployment: Deployment, gpus: int) -> Layout | None:
        """The layout of a single replica of `gpus` GPUs; None where there is none."""
        alone = deployment.model_copy(update={"replicas": 1, "instances": None})
        return self._try(self.recipe, self.slots, alone, gpus)

    def all_replicas(self, deployment: Deployment, gpus: int) -> Layout | None:
        """The layout of as many replicas of `gpus` GPUs as are asked for."""
        replicas = asked_replicas(deployment)
        total = sum(len(slot.gpus) for slot in self.slots)
        cost = total if replicas == "max" else min(replicas * gpus, total)
        return self._try(self.recipe, self.slots, deployment, cost)

    def offered(self, offer: Offer) -> str | None:
        """What is to be said of an offer: its words with the values that can be planned."""
        if offer.setting == "nodes" and len(offer.values) == 1 and self._missing(offer.values[0]):
            missing = self._missing(offer.values[0])
            return f"{offer.text()} with {missing} more host{'s' * (missing > 1)}"
        first, values = around(offer.values, offer.asked)
        works = [value for value in values if self._works(offer.setting, value)]
        if not works:
            return None
        more = first > 0, first + len(values) < len(offer.values)
        shown = ["..."] * more[0] + [listed(works)] + ["..."] * more[1]
        return offer.words.format(", ".join(shown))

    def _missing(self, nodes: int) -> int:
        """The hosts that replicas of so many nodes need beside those there are."""
        replicas = asked_replicas(self.deployment)
        return max(nodes * (1 if replicas == "max" else replicas) - len(self.slots), 0)

    def _works(self, setting: str, value: int) -> bool:
        recipe, slots, deployment = self.recipe, self.slots, self.deployment
        if setting == "orc_gpus":
            slots = [replace(slot, gpus=slot.gpus[:value]) for slot in slots]
        elif setting == "num_redundant_experts":
            recipe = _with_redundant(recipe, value)
        else:
            deployment = changed(deployment, setting, value)
        total = sum(len(slot.gpus) for slot in slots)
        return self._try(recipe, slots, deployment, total) is not None

    def _try(
        self, recipe: ResolvedRecipe, slots: Sequence[Slot], deployment: Deployment, gpus: int
    ) -> Layout | None:
        if gpus > self.left:
            return None
        self.left -= gpus
        try:
            return self.attempt(recipe, slots, deployment)
        except PlanError:
            return None


def changed(deployment: Deployment, setting: str, value: int) -> Deployment:
    """The deployment with another `nodes`, or another size under `parallel.`."""
    field, _, size = setting.partition(".")
    if not size:
        return deployment.model_copy(update={field: value})
    parallel = deployment.parallel.model_copy(update={size: value})
    return deployment.model_copy(update={"parallel": parallel})


def _with_redundant(recipe: ResolvedRecipe, value: int) -> ResolvedRecipe:
    """The recipe with another number of redundant experts, in every pool."""
    if recipe.pools:
        pools = {
            role: replace(pool, parts=replace(pool.parts, arguments=_redundant(pool.parts, value)))
            for role, pool in recipe.pools.items()
        }
        return replace(recipe, pools=pools)
    return replace(recipe, arguments=_redundant(recipe.parts, value))


def _redundant(parts: CommandParts, value: int) -> tuple[Argument, ...]:
    flag = "--eplb-config"
    said = json_of(parts.arguments, flag) | {"num_redundant_experts": value}
    kept, _ = without(parts.arguments, {flag})
    return (*kept, Argument(flag, (flag, json.dumps(said)), "tried"))
