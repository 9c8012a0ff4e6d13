"""What differs between a plan and what runs, node by node and field by field. Pure.

A spec's hash says whether a container was made from the planned spec; only a look at what it was
really started with says whether somebody has changed it since.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.planning.decision import flag_values, shown_value
from orchestrator.planning.launch_spec import NOT_WHAT_RUNS, START_ONLY, LaunchSpec
from orchestrator.planning.plan import Plan
from orchestrator.planning.service import group_name
from orchestrator.runtime.container_details import ContainerDetails, HostDetails
from orchestrator.runtime.containers import ContainerState
from orchestrator.runtime.docker_options import UPDATABLE, options_of_run
from orchestrator.runtime.image import is_digest, repository
from orchestrator.secret import REDACTED, Secret, is_secret_name

# Ranks of a group are started at once: one that is this much younger was started by itself.
_TOGETHER = 60.0  # seconds

Details = Mapping[str, HostDetails]  # by host


@dataclass(frozen=True, slots=True)
class Difference:
    """One field of one node: what the plan has and what runs; None where there is none.

    `field` is `state`, `name`, `image`, `ports`, `started`, or a kind and a name: `argument
    --port`, `environment A`, `volume a:b`, `label x`, `option memory`, ...
    """

    field: str
    planned: str | None
    running: str | None

    def __str__(self) -> str:
        before, after = self.running or "(not set)", self.planned or "(not set)"
        return f"{self.field}: {before} -> {after}"

    def to_dict(self) -> dict[str, Any]:
        return {"field": self.field, "planned": self.planned, "running": self.running}


@dataclass(frozen=True, slots=True)
class NodeDrift:
    """What differs at one container. `by_hand`: it was made from the planned spec, and has been
    changed since. `notes` are worth knowing and are no difference."""

    host: str
    name: str
    replica: int
    rank: int
    differences: tuple[Difference, ...]
    by_hand: bool = False
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {
            "host": self.host,
            "name": self.name,
            "replica": self.replica,
            "rank": self.rank,
            "by_hand": self.by_hand,
            "differences": [difference.to_dict() for difference in self.differences],
            "notes": list(self.notes),
        }


def open_variables(plan: Plan) -> list[str]:
    """The variables whose text `orc plan` shows: only of these may it be fetched."""
    return sorted(
        {
            name
            for spec in plan.everything
            for name, value in spec.env.items()
            if isinstance(value, str) and not is_secret_name(name)
        }
    )


def find_drift(
    plan: Plan,
    containers: Iterable[ContainerState],
    details: Details,
    salt: str,
    unknown: Iterable[str] = (),
) -> list[NodeDrift]:
    """Every planned node and every other container of the deployment, differing or not.

    `unknown` are hosts that did not answer: nothing is said of what they should run. `salt` is
    the one with which `details` was fetched.
    """
    # What a roll has put aside is kept to go back to, and is no drift.
    everything = [state for state in containers if not state.aside]
    ours = [state for state in everything if state.deployment == plan.name]
    by_place = {(state.host, state.name): state for state in everything}
    silent = set(unknown)
    found = []
    taken: set[str] = set()
    for spec in plan.everything:
        if spec.host in silent:
            continue
        state = by_place.get((spec.host, spec.name)) or _renamed(spec, ours, plan)
        if state is not None:
            taken.add(state.id)
        found.append(_node(spec, state, plan, ours, details.get(spec.host, HostDetails()), salt))
    for state in ours:
        if state.id not in taken and state.host not in silent:
            found.append(_extra(state))
    return found


def _renamed(spec: LaunchSpec, ours: Sequence[ContainerState], plan: Plan) -> ContainerState | None:
    """The container on the same host that has the node's labels and another name than planned."""
    planned = {(other.host, other.name) for other in plan.everything}
    wanted = (spec.host, spec.replica, spec.rank, spec.role)
    return next(
        (
            state
            for state in ours
            if (state.host, state.replica, state.rank, state.role) == wanted
            and (state.host, state.name) not in planned
            and state.spec == spec.spec_hash
        ),
        None,
    )


def _extra(state: ContainerState) -> NodeDrift:
    running = "running" if state.running else state.ending()
    difference = Difference("container", None, f"{running}, not in the plan")
    return NodeDrift(state.host, state.name, state.replica, state.rank, (difference,))


def _node(
    spec: LaunchSpec,
    state: ContainerState | None,
    plan: Plan,
    ours: Sequence[ContainerState],
    host: HostDetails,
    salt: str,
) -> NodeDrift:
    place = (spec.host, spec.name, spec.replica, spec.rank)
    if state is None:
        return NodeDrift(*place, (Difference("container", "running", None),))
    if state.deployment != plan.name:
        owner = f"of deployment {state.deployment}" if state.deployment else "of somebody else"
        return NodeDrift(*place, (Difference("container", "running", owner),))
    differences = [*_states(spec, state), *_arguments(spec, state), *_image(spec, state, host)]
    details = host.containers.get(state.id)
    if details is not None:
        differences += [
            *_environment(spec, details, salt),
            *_options(spec, details),
            *_labels(spec, state, details),
        ]
    same_spec = state.spec == spec.spec_hash
    notes = [f"{name} is not compared" for name in options_of_run(spec.command).unknown]
    group = [other for other in ours if other.replica == state.replica]
    late = started_alone(state, group)
    if late is not None:
        differences.append(Difference("started", "with the other ranks", late))
    if not same_spec and not differences:
        differences.append(Difference("label orc.spec", spec.spec_hash[:12], state.spec[:12]))
    return NodeDrift(*place, tuple(differences), same_spec and bool(differences), tuple(notes))


def _states(spec: LaunchSpec, state: ContainerState) -> Iterator[Difference]:
    if state.name != spec.name:
        yield Difference("name", spec.name, state.name)
    if not state.running:
        yield Difference("state", "running", state.ending())
    if state.restart_count:
        yield Difference("restarts", "0", str(state.restart_count))


def started_alone(state: ContainerState, group: Sequence[ContainerState]) -> str | None:
    """A rank that was started long after the eldest of its group: a group is started as one."""
    ages = [other.up_seconds for other in group if other.up_seconds is not None]
    if state.up_seconds is None or len(ages) < 2:
        return None
    late = max(ages) - state.up_seconds
    return f"{late:.0f} s after the others" if late > _TOGETHER else None


def _arguments(spec: LaunchSpec, state: ContainerState) -> Iterator[Difference]:
    running, planned = flag_values(state.command), flag_values(spec.container.command)
    for flag in dict.fromkeys([*planned, *running]):
        before, after = running.get(flag), planned.get(flag)
        if before != after:
            field = "command" if flag == "command" else f"argument {flag}"
            shown = [None if v is None else shown_value(flag, v) for v in (after, before)]
            yield Difference(field, *shown)


def _image(spec: LaunchSpec, state: ContainerState, host: HostDetails) -> Iterator[Difference]:
    """The image by its digest; a tag counts by what it means on the host now."""
    reference = spec.pinned_image or spec.image
    meant = host.images.get(reference)
    if state.image == reference or (meant is not None and meant == state.image_id):
        return
    if meant is None and not is_digest(reference):
        if state.spec == spec.spec_hash and repository(state.image) == repository(reference):
            return  # made of this tag; what it means by now the registry knows
        reference += " (not on this host)"
    yield Difference("image", reference, state.image)


def _environment(spec: LaunchSpec, details: ContainerDetails, salt: str) -> Iterator[Difference]:
    planned = {name: value for name, value in spec.env.items() if name not in START_ONLY}
    for name in sorted({*planned, *details.env} - START_ONLY):
        value, running = planned.get(name), details.env.get(name)
        if (
            running is not None
            and value is not None
            and _digest(name, value, salt) == running.digest
        ):
            continue
        after = None if value is None else _shown(name, value)
        before = None if running is None else running.text
        if running is not None and running.text is None:
            before = REDACTED if is_secret_name(name) or isinstance(value, Secret) else "(set)"
        if after == before == REDACTED:
            before = f"{REDACTED} (another)"
        yield Difference(f"environment {name}", after, before)


def _digest(name: str, value: str | Secret, salt: str) -> str:
    before = f"{salt}{name}="
    if isinstance(value, Secret):
        return value.digest(before)
    return hashlib.sha256(f"{before}{value}".encode()).hexdigest()


def _shown(name: str, value: str | Secret) -> str:
    return REDACTED if isinstance(value, Secret) or is_secret_name(name) else value


def _options(spec: LaunchSpec, details: ContainerDetails) -> Iterator[Difference]:
    planned, running = options_of_run(spec.command), details.options
    # docker fills in the others by itself, from the image or from its own settings.
    for name in sorted({*planned.scalars, *UPDATABLE}):
        after, before = planned.scalars.get(name), running.scalars.get(name)
        if after != before:
            yield Difference(f"option {name}", after, before)
    for name in sorted({*planned.lists, *running.lists}):
        wanted, there = planned.lists.get(name, ()), running.lists.get(name, ())
        yield from (
            Difference(f"{name} {item}", "set", None) for item in wanted if item not in there
        )
        yield from (
            Difference(f"{name} {item}", None, "set") for item in there if item not in wanted
        )


def _labels(
    spec: LaunchSpec, state: ContainerState, details: ContainerDetails
) -> Iterator[Difference]:
    planned = options_of_run(spec.command).labels
    for name in sorted({*planned, *state.labels} - NOT_WHAT_RUNS - {"orc.spec"}):
        after, before = planned.get(name), state.labels.get(name)
        if after == before or (after is None and details.image_labels.get(name) == before):
            continue
        field = "ports" if name == "orc.ports" else f"label {name}"
        hidden = is_secret_name(name.replace(".", "_"))
        yield Difference(field, *(REDACTED if hidden and v else v for v in (after, before)))


def drift_lines(drift: Sequence[NodeDrift]) -> list[str]:
    """What differs, for a person: nothing of nodes that run as planned."""
    lines = []
    for node in drift:
        if not node.differences:
            continue
        how = " (made as planned, changed since)" if node.by_hand else ""
        group = group_name(node.replica)
        lines.append(f"{node.host}  {node.name}  {group} rank {node.rank}{how}")
        lines += [f"  {difference}" for difference in node.differences]
        lines += [f"  note: {note}" for note in node.notes]
    return lines
