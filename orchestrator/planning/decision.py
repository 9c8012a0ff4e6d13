"""What has to be done for a plan, given what runs: a pure comparison, replica by replica."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from orchestrator.planning.launch_spec import LaunchSpec
from orchestrator.planning.plan import Plan
from orchestrator.planning.service import group_name
from orchestrator.runtime.containers import ContainerState
from orchestrator.secret import is_secret_name

Action = Literal["keep", "start", "restart", "differs", "remove"]


@dataclass(frozen=True, slots=True)
class ReplicaDecision:
    """What to do about one replica.

    keep: all its ranks run with the planned spec. start: nothing of it is there. restart: some
    of it is there, but not all of it runs: a group has one fate. differs: another spec runs.
    remove: it runs, and the plan has no such replica.
    `containers` are those of the replica that exist, wherever they are.
    """

    replica: int
    action: Action
    reasons: tuple[str, ...] = ()
    containers: tuple[ContainerState, ...] = ()

    @property
    def starts(self) -> bool:
        return self.action in ("start", "restart")


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do about each replica, and what forbids doing it."""

    replicas: tuple[ReplicaDecision, ...]
    refusals: tuple[str, ...] = ()

    def of(self, *actions: Action) -> tuple[ReplicaDecision, ...]:
        return tuple(replica for replica in self.replicas if replica.action in actions)


def decide(plan: Plan, containers: Iterable[ContainerState], *, replace: bool = False) -> Decision:
    """Compare the plan with the containers seen on all hosts.

    With `replace` a replica whose spec differs is restarted, and one that is not in the plan
    is removed; without it both are refused, naming what differs. A container that has a planned
    name and is not of this deployment is refused always, and never touched.
    """
    everything = tuple(containers)
    ours = [s for s in everything if s.deployment == plan.name and not s.aside]
    refusals = [_foreign(state, plan.name) for state in _strangers(plan, everything)]
    decisions = []
    for specs in plan.groups():
        states = tuple(state for state in ours if state.replica == specs[0].replica)
        decisions.append(_replica(specs, states, replace))
    planned = {decision.replica for decision in decisions}
    for number in sorted({state.replica for state in ours} - planned):
        states = tuple(state for state in ours if state.replica == number)
        reason = f"{group_name(number)} is not in the plan"
        decisions.append(ReplicaDecision(number, "remove", (reason,), states))
    if not replace:
        refusals += [_differs(decision) for decision in decisions if _is_refused(decision)]
    return Decision(tuple(decisions), tuple(refusals))


def _is_refused(decision: ReplicaDecision) -> bool:
    running = any(state.running for state in decision.containers)
    return decision.action == "differs" or (decision.action == "remove" and running)


def _replica(
    specs: Sequence[LaunchSpec], states: tuple[ContainerState, ...], replace: bool
) -> ReplicaDecision:
    number = specs[0].replica
    if not states:
        return ReplicaDecision(number, "start")
    planned = {(spec.host, spec.name): spec for spec in specs}
    seen = {(state.host, state.name): state for state in states}
    differences = [
        difference
        for state in states
        if state.running
        for difference in _difference(planned.get((state.host, state.name)), state)
    ]
    if differences:
        action: Action = "restart" if replace else "differs"
        return ReplicaDecision(number, action, tuple(differences), states)
    reasons = []
    for place, spec in planned.items():
        state = seen.get(place)
        if state is None:
            reasons.append(f"rank {spec.rank} is missing on {spec.host}")
        elif not state.running:
            reasons.append(f"rank {spec.rank} on {spec.host}: {state.ending()}")
    reasons += [
        f"{state.name} is left over on {state.host}"
        for place, state in seen.items()
        if place not in planned
    ]
    return ReplicaDecision(number, "restart" if reasons else "keep", tuple(reasons), states)


def _difference(spec: LaunchSpec | None, state: ContainerState) -> list[str]:
    """What differs between a running container and its spec; nothing when the hashes agree."""
    if spec is None:
        return [f"{state.name} runs on {state.host}, where the plan has none of that name"]
    if state.spec == spec.spec_hash:
        return []
    fields = _changed_flags(state.command, spec.container.command)
    if _repository(state.image) != _repository(spec.image):
        fields.append(f"image {state.image} -> {spec.image}")
    if not fields:
        fields.append(
            "its image tag, environment, mounts or container options (orc diff says which)"
        )
    return [f"{state.name} on {state.host} runs another spec: {'; '.join(fields)}"]


def _changed_flags(running: Sequence[str], planned: Sequence[str]) -> list[str]:
    before, after = flag_values(running), flag_values(planned)
    return [
        f"{flag} {shown_value(flag, before.get(flag))} -> {shown_value(flag, after.get(flag))}"
        for flag in dict.fromkeys([*before, *after])
        if before.get(flag) != after.get(flag)
    ]


def flag_values(command: Sequence[str]) -> dict[str, str]:
    """Flags with their values; the words before the first flag go by `command`."""
    flags: dict[str, list[str]] = {}
    current = flags.setdefault("command", [])
    for word in command:
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            current = flags.setdefault(name, [])
            if equals:
                current.append(value)
        else:
            current.append(word)
    return {flag: " ".join(words) for flag, words in flags.items()}


def shown_value(flag: str, value: str | None) -> str:
    """A flag's value as it may be shown."""
    if value is None:
        return "(not set)"
    if is_secret_name(flag.lstrip("-").replace("-", "_")):
        return "<secret>"
    return value or "(set)"


def _repository(image: str) -> str:
    name = image.partition("@")[0]
    head, slash, last = name.rpartition("/")
    return head + slash + last.partition(":")[0]


def _strangers(plan: Plan, states: Iterable[ContainerState]) -> list[ContainerState]:
    names = {(spec.host, spec.name) for spec in plan.everything}
    return [s for s in states if (s.host, s.name) in names and s.deployment != plan.name]


def _foreign(state: ContainerState, name: str) -> str:
    owner = f"deployment {state.deployment}" if state.deployment else "somebody else"
    return (
        f"{state.host}: a container named {state.name} exists and belongs to {owner}; "
        f"it is not touched. Remove or rename it, or choose another --name than {name}"
    )


def _differs(decision: ReplicaDecision) -> str:
    return f"{group_name(decision.replica)}: {'; '.join(decision.reasons)}"
