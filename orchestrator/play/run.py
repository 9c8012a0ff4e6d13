"""One run of a playbook: what it was given, and what its actions found out so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from orchestrator.deployment import Deployment
from orchestrator.errors import InputError
from orchestrator.events.event import Emit, Event, Kind
from orchestrator.facts.host_facts import HostFacts
from orchestrator.health.endpoint import EndpointCheck, Target
from orchestrator.health.observation import Observation
from orchestrator.inventory.load import Inventory
from orchestrator.planning.decision import Decision
from orchestrator.planning.plan import Plan
from orchestrator.play.history import Change
from orchestrator.play.lock import HeldLock
from orchestrator.play.request import Request
from orchestrator.recipes.catalog import Catalog
from orchestrator.secret import Secret, redact
from orchestrator.transport.pool import ConnectionPool


@dataclass
class Run:
    """Given: inventory, pool, emit, what is selected, `check` (say, do not do), `diff` (show what
    changes), how verbose it is, how it was asked for, variables.

    Found out by actions, in this order: facts, plan, observation, decision, checks of the
    endpoints.
    """

    inventory: Inventory
    pool: ConnectionPool
    emit: Emit
    catalog: Catalog | None = None
    deployment: Deployment | None = None
    name: str | None = None
    check: bool = False
    diff: bool = False
    verbose: int = 0
    request: Request = field(default_factory=Request)
    variables: Mapping[str, Any] = field(default_factory=dict)
    confirm: Callable[[str], bool] | None = None  # asks a person; None where nobody can answer
    # The groups (replicas, and services by their negative numbers) that the present task acts
    # on; None: all. Set by the engine.
    scope: frozenset[int] | None = None
    revealed: set[Secret] = field(default_factory=set)  # that tasks handed to a host themselves

    facts: dict[str, HostFacts] = field(default_factory=dict)
    unreachable: dict[str, str] = field(default_factory=dict)
    plan: Plan | None = None
    observation: Observation | None = None
    decision: Decision | None = None
    touched: set[int] = field(default_factory=set)  # groups of which it stopped or started any
    started: set[int] = field(default_factory=set)  # replicas that this run started
    stopped: int = 0  # containers that this run stopped
    rolling: tuple[int, ...] | None = None  # the replicas that a roll goes over, in its order
    surge: int | None = None  # the replica that it starts in addition
    aside: set[str] = field(default_factory=set)  # ids of the containers that it put aside
    unproven: set[int] = field(default_factory=set)  # a roll began them, and they never served
    stopped_replicas: set[int] = field(default_factory=set)  # that it stopped to start them anew
    replaces: set[str] = field(default_factory=set)  # ids of containers that a roll found
    rolled: set[int] = field(default_factory=set)  # replicas that serve again after it
    put_back: set[int] = field(default_factory=set)  # those of them with the spec before
    endpoints: dict[Target, EndpointCheck] = field(default_factory=dict)
    healthy_after: dict[int, float] = field(default_factory=dict)  # seconds, of those started
    lock: HeldLock | None = None
    change: Change | None = None  # what stands in the history as begun

    def turn_to(self, deployment: Deployment) -> None:
        """Begin anew with another deployment: what was found out of the last one does not hold."""
        fresh = Run(self.inventory, self.pool, self.emit)
        names = [one.name for one in fields(Run)]
        for name in names[names.index("facts") :]:
            setattr(self, name, getattr(fresh, name))
        self.deployment = deployment
        self.name = deployment.deployment_name()

    def in_scope(self, group: int) -> bool:
        """Whether the present task acts on a replica (or a service's group)."""
        return self.scope is None or group in self.scope

    @property
    def replica_hosts(self) -> dict[int, tuple[str, ...]]:
        """The hosts of each replica by rank: those of the plan, else of what was seen to run.

        Under a roll only of those that it goes over.
        """
        nodes: list[tuple[int, int, str]] = []
        if self.plan is not None:
            nodes = [(node.replica, node.rank, node.host) for node in self.plan.nodes]
        elif self.observation is not None and self.name is not None:
            seen = self.observation.everything(self.name)
            nodes = [(s.replica, s.rank, s.host) for s in seen if s.replica >= 0]
        hosts: dict[int, dict[str, None]] = {}
        for replica, _, host in sorted(nodes):
            hosts.setdefault(replica, {})[host] = None
        chosen = hosts if self.rolling is None else self.rolling
        return {replica: tuple(hosts[replica]) for replica in hosts if replica in chosen}

    @property
    def planned(self) -> Plan:
        """The plan. Raises InputError when no task has made one."""
        if self.plan is None:
            raise InputError("there is no plan yet", hint="put the task `preflight` first")
        return self.plan

    @property
    def decided(self) -> Decision:
        """The decision. Raises InputError when no task has made one."""
        if self.decision is None:
            raise InputError("what runs is not known yet", hint="put the task `preflight` first")
        return self.decision

    def starts(self, group: int) -> bool:
        """Whether the decision is to start a group, anew or again."""
        return any(one.replica == group and one.starts for one in self.decided.replicas)

    @property
    def secrets(self) -> list[Secret]:
        """Every secret value that the plan or a task hands to a host."""
        nodes = self.plan.nodes if self.plan else ()
        found = {v for node in nodes for v in node.env.values() if isinstance(v, Secret)}
        return [*found, *self.revealed]

    def clean(self, text: str) -> str:
        """Text that came back from a host, without secret values."""
        return redact(text, self.secrets)

    def say(self, kind: Kind, message: str, **fields: Any) -> None:
        self.emit(Event(kind, self.clean(message), **fields))
