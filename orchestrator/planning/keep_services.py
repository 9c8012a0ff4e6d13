"""Another image for the engines is no reason to restart what stands beside them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from orchestrator.planning.launch_spec import IMAGE, LaunchSpec
from orchestrator.planning.plan import Plan
from orchestrator.planning.router import image_note
from orchestrator.planning.service import group_name
from orchestrator.runtime.containers import ContainerState


def keep_services(plan: Plan, containers: Iterable[ContainerState]) -> Plan:
    """The plan with the images that its router and KV store run from, where nothing but the image
    differs and none was asked for by name.

    They take the engines' image only for want of another. To restart a router is to lose the
    requests of that moment, and to restart a store is to lose what it holds.
    """
    running = [s for s in containers if s.deployment == plan.name and s.running and not s.aside]
    router = plan.router
    if router is not None and not (plan.deployment.router and plan.deployment.router.image):
        (router,) = _kept([router], running)
    kept = replace(plan, router=router, services=tuple(_kept(plan.services, running)))
    notes = dict.fromkeys(
        f"the {group_name(now.replica)} keeps running from {now.image}, not {then.image}"
        for then, now in zip(plan.everything, kept.everything, strict=True)
        if then.image != now.image
    )
    # What is said of the image that the router would have is of no use when it keeps another.
    gone = {image_note(plan.router)} if plan.router and plan.router != kept.router else set()
    return replace(kept, notes=(*(note for note in plan.notes if note not in gone), *notes))


def _kept(specs: Sequence[LaunchSpec], running: Sequence[ContainerState]) -> list[LaunchSpec]:
    """A group with its running image, if that makes all of it what runs; else as it was."""
    seen = {(state.host, state.name): state for state in running}
    kept = []
    for spec in specs:
        state = seen.get((spec.host, spec.name))
        image = state.labels.get(IMAGE) if state else None
        if state is None or image is None:
            return list(specs)
        labels = {**spec.container.labels, IMAGE: image}
        container = replace(spec.container, image=image, labels=labels)
        same = replace(spec, image=image, container=container)
        if same.spec_hash != state.spec:
            return list(specs)
        kept.append(same)
    return kept
