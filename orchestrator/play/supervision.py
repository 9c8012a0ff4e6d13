"""`orc watch`: looks at every group, lets `health.supervise` decide, and does what it says."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from orchestrator.errors import ErrorGroup, ExitStatus, OrcError, nearest
from orchestrator.events.event import Emit, Event
from orchestrator.health.failure import explain_failure
from orchestrator.health.group_look import (
    GroupKey,
    Heard,
    Members,
    group_look,
    remember,
    unknown_hosts,
)
from orchestrator.health.groups import groups_by_labels
from orchestrator.health.judge import HostLook, RankKey, RankProblem, Verdict
from orchestrator.health.lookout import Lookout
from orchestrator.health.observation import observe
from orchestrator.health.supervise import (
    HOUR,
    GroupLook,
    GroupState,
    Policy,
    Say,
    Start,
    Stop,
    adopt,
    start_failed,
    step,
)
from orchestrator.health.targets import own_key, running_targets
from orchestrator.inventory.load import Inventory
from orchestrator.planning.service import ROUTER_GROUP, group_name
from orchestrator.play.actions.by_host import on_each_host
from orchestrator.play.actions.stop_containers import stop_containers
from orchestrator.play.actions.undrain import rejoin
from orchestrator.play.history import SpecChange, group_spec, read_history
from orchestrator.play.hold_lock import hold_lock
from orchestrator.play.lease import Leases
from orchestrator.play.lock import HeldLock, LockedError
from orchestrator.play.record_change import begin_change, end_change
from orchestrator.play.request import Request
from orchestrator.play.run import Run
from orchestrator.runtime.aside_scripts import start_again_script
from orchestrator.runtime.containers import ContainerState
from orchestrator.transport.pool import ConnectionPool

_TICK = 0.5  # seconds


@dataclass
class _Group:
    """A supervised group, and what is being done about it."""

    state: GroupState
    members: Members
    after: float = 0.0  # looks and answers count that began after this moment (monotonic)
    heard: Heard = field(default_factory=Heard)
    doing: threading.Thread | None = None
    run: Run | None = None  # the restart that stands in the history as begun

    @property
    def busy(self) -> bool:
        return self.doing is not None and self.doing.is_alive()


class _Changed(Exception):
    """What was decided on is not so any more."""


@dataclass
class Supervisor:
    """Supervises one deployment, or all that it finds, until it is interrupted."""

    inventory: Inventory
    pool: ConnectionPool
    emit: Emit
    request: Request
    name: str | None = None
    policy: Policy = field(default_factory=Policy)
    interval: float = 5.0
    canary_interval: float = 15.0
    canary_timeout: float = 60.0

    def __post_init__(self) -> None:
        self._groups: dict[GroupKey, _Group] = {}
        self._known: dict[GroupKey, Members] = {}
        self._emitting = threading.Lock()
        # Two groups of a deployment are not acted on at once: they share its lock.
        self._acting: dict[str, threading.Lock] = {}
        self._locks: list[HeldLock] = []
        self._leases = Leases(self.inventory, self.pool, self.request, self._say_of)
        # Another's watch may be taken over on request, another's change never.
        self.request = replace(self.request, break_lock=False)

    def run(self) -> None:
        """Until KeyboardInterrupt. Raises DeploymentError when another watches the named one."""
        lookout = Lookout(
            self.pool.connection,
            self.inventory.hosts,
            interval=self.interval,
            canary_interval=self.canary_interval,
            canary_timeout=self.canary_timeout,
        )
        try:
            with lookout:
                while len(lookout.looks()) < len(self.inventory.hosts):
                    time.sleep(0.1)
                self._say_begin(lookout.looks())
                while True:
                    self._tick(lookout)
                    time.sleep(_TICK)
        finally:
            self.pool.interrupt(lambda: any(group.busy for group in self._groups.values()))
            for lock in [*self._locks]:
                lock.release()
            self._leases.release()

    def _say_begin(self, looks: Mapping[str, HostLook]) -> None:
        for host, why in unknown_hosts(looks).items():
            self._emit(Event("warning", f"{why}; what runs there is unknown", host=host))
        groups = remember({}, looks)
        if not self._wanted(groups):
            text = f"nothing of {self.name} is there" if self.name else "nothing is deployed"
            near = nearest(self.name or "", {name for name, _ in groups})
            asked = f"; did you mean {near!r}?" if near else ""
            self._emit(Event("note", f"{text} yet; waiting for it{asked}"))

    def _wanted(self, groups: Mapping[GroupKey, Members]) -> dict[GroupKey, Members]:
        return {k: members for k, members in groups.items() if self.name in (None, k[0])}

    def _tick(self, lookout: Lookout) -> None:
        looks = lookout.looks()
        self._known = self._wanted(remember(self._known, looks))
        self._leases.hold(
            {name: self._hosts_of(name, looks) for name, _ in self._known}, named=self.name
        )
        for key in [key for key in self._groups if key not in self._known]:
            self._gone(key)
        for key, members in self._known.items():
            if self._leases.held(key[0]):
                self._meet(key, members, looks)
            else:
                self._groups.pop(key, None)
        asked = [s for group in self._groups.values() for s in group.members.values()]
        lookout.ask(running_targets(asked))
        for key, group in self._groups.items():
            if not group.busy:
                self._step(key, group, looks, lookout)

    def _hosts_of(self, deployment: str, looks: Mapping[str, HostLook]) -> list[str]:
        """Its hosts that answer, in the inventory's order."""
        unknown = unknown_hosts(looks)
        own = {host for key, m in self._known.items() if key[0] == deployment for host, _ in m}
        return [host for host in self.inventory.hosts if host in own and host not in unknown]

    def _meet(self, key: GroupKey, members: Members, looks: Mapping[str, HostLook]) -> None:
        if key in self._groups:
            self._groups[key].members = members
            return
        look = group_look(members, looks, canary=None, holder=None)
        now = time.monotonic()
        self._groups[key] = _Group(adopt(look, now, self._past_restarts(key)), members)
        self._say(key, "note", f"is supervised: {_shown(members)}")

    def _past_restarts(self, key: GroupKey) -> tuple[float, ...]:
        """Those of an earlier `orc watch` within the last hour count, too."""
        changes, _ = read_history(self.pool, {host for host, _ in self._known[key]}, key[0])
        ages = [
            max(0.0, time.time() - change.moment)
            for change in changes
            if change.playbook == self.request.playbook and key[1] in change.groups
        ]
        return tuple(time.monotonic() - age for age in ages if age < HOUR)

    def _gone(self, key: GroupKey) -> None:
        group = self._groups[key]
        if group.busy:
            return
        del self._groups[key]
        self._end(group, ExitStatus.FAILED)
        self._say(key, "note", "its containers were removed; it is not supervised any more")

    def _step(
        self, key: GroupKey, group: _Group, looks: Mapping[str, HostLook], lookout: Lookout
    ) -> None:
        hosts = {host for host, _ in group.members}
        seen = min(looks[host].began for host in hosts)
        if seen <= group.after:
            return
        canary, group.heard = group.heard.take(
            running_targets(group.members.values()),
            lookout.answers(),
            after=group.after,
            seen=min(seen, self._leases.looked(key[0])),
        )
        if key[1] == ROUTER_GROUP and not self._engines_are_healthy(key[0]):
            canary = None  # what the router answers is theirs
        look = group_look(group.members, looks, canary=canary, holder=self._leases.holder(key[0]))
        now = time.monotonic()
        if look.holder is not None:
            group.after = now  # what is seen while another changes it does not count
        before = group.state
        group.state, decisions = step(before, look, self.policy, now)
        sayings = [decision for decision in decisions if isinstance(decision, Say)]
        stop = next((d for d in decisions if isinstance(d, Stop)), None)
        if stop is not None:
            known = [host for host in hosts if host not in look.unknown]
            self._do(key, group, before, lambda: self._stop(key, group, look, stop, known), sayings)
        elif any(isinstance(decision, Start) for decision in decisions):
            self._do(key, group, before, lambda: self._start(key, group, look), sayings)
        else:
            for said in sayings:
                self._say(key, said.kind, said.text)
            if group.run is not None and group.state.phase in ("healthy", "aside"):
                self._do(key, group, group.state, lambda: self._settle(key, group, before), [])

    def _engines_are_healthy(self, deployment: str) -> bool:
        return all(
            group.state.phase == "healthy"
            for (name, replica), group in self._groups.items()
            if name == deployment and replica >= 0
        )

    def _do(
        self,
        key: GroupKey,
        group: _Group,
        before: GroupState,
        work: Callable[[], None],
        sayings: list[Say],
    ) -> None:
        """Do something in the group's own thread. What turns out to be another's business, or not
        so any more, has not happened: the group is looked at anew."""

        def attempt() -> None:
            try:
                with self._acting.setdefault(key[0], threading.Lock()):
                    work()
            except (LockedError, _Changed) as why:
                group.state = before
                if isinstance(why, LockedError):
                    self._leases.note_holder(key[0], why.found)
                return
            except OrcError as error:
                self._say(key, "warning", str(error))
                now = time.monotonic()
                group.state, decisions = start_failed(group.state, error.what, self.policy, now)
                sayings[:] = [decision for decision in decisions if isinstance(decision, Say)]
                if group.state.phase == "failed":
                    self._end(group, ExitStatus.FAILED)
            finally:
                group.after = time.monotonic()
            for said in sayings:
                self._say(key, said.kind, said.text)

        def thread() -> None:
            with contextlib.suppress(KeyboardInterrupt):  # the pool was interrupted
                attempt()

        group.doing = threading.Thread(target=thread, daemon=True)
        group.doing.start()

    def _stop(
        self, key: GroupKey, group: _Group, look: GroupLook, stop: Stop, hosts: list[str]
    ) -> None:
        """Stop what runs of the group on the hosts that answer, and say why: the first cause, and
        the last lines of the ranks that ended."""
        self._end(group, ExitStatus.FAILED)
        run = self._new_run(key)
        with self._locked(run, hosts):
            states = self._now(key, group, hosts)
            if look.ended and all(state.running for state in states):
                raise _Changed
            text, cause = self._explain(key, states, stop)
            spec = group_spec(group.members.values())
            begin_change(run, {key[1]: SpecChange(spec, spec)}, cause)
            self._say(key, "warning", text)
            running = [state for state in states if state.running or state.status == "restarting"]
            answers = stop_containers(self.pool, running, key[0], remove=False)
        for error in answers.values():
            if error is not None:
                self._say(key, "warning", str(error))
        group.run = run
        if stop.final:
            self._end(group, ExitStatus.FAILED)

    def _start(self, key: GroupKey, group: _Group, look: GroupLook) -> None:
        """Stop what still runs, and start all of it at once. Raises OrcError."""
        run = group.run or self._new_run(key)
        hosts = [host for host in self.inventory.hosts if host in {h for h, _ in group.members}]
        with self._locked(run, hosts):
            states = self._now(key, group, hosts)
            if {state.id for state in states} != look.ids:
                raise _Changed
            self._end_all(key, states)
            containers = [(state.host, state.name) for state in states]
            try:
                on_each_host(
                    run, containers, lambda names: start_again_script(names, key[0]), "start"
                )
            except OrcError:
                self._end_all(key, states)  # one group, one fate
                raise
        self._say(key, "note", "started again, all ranks together")

    def _end_all(self, key: GroupKey, states: list[ContainerState]) -> None:
        """Stop the containers, whatever they do. Raises OrcError where that does not work."""
        answers = stop_containers(self.pool, states, key[0], remove=False)
        if errors := [error for error in answers.values() if error is not None]:
            raise ErrorGroup(errors)

    def _now(self, key: GroupKey, group: _Group, hosts: list[str]) -> list[ContainerState]:
        """The group under the lock. Raises _Changed when it is not what was decided on."""
        seen = observe(self.pool, hosts)
        if seen.unknown:
            raise _Changed
        states = [s for s in seen.containers(key[0]) if s.replica == key[1]]
        before = {s.id for s in group.members.values() if s.host in hosts}
        if not states or {state.id for state in states} != before:
            raise _Changed
        return states

    def _explain(self, key: GroupKey, states: list[ContainerState], stop: Stop) -> tuple[str, str]:
        (group,) = groups_by_labels(states)
        ended = sorted(
            (state for state in states if not state.running),
            key=lambda state: -(state.ended_seconds_ago or 0.0),
        )
        problems = tuple(RankProblem(RankKey(s.host, s.name, s.rank), s.ending(), s) for s in ended)
        verdict = Verdict("failed", stop.reason, problems)
        secret = own_key()
        secrets = [secret] if secret else []
        failure = explain_failure(self.pool, group, verdict, secrets)
        cause = f"{stop.reason}: {failure.cause}" if failure.cause else stop.reason
        return failure.text().removeprefix(f"{group_name(key[1])} "), cause

    @contextlib.contextmanager
    def _locked(self, run: Run, hosts: list[str]) -> Iterator[None]:
        """Hold the lock meanwhile. One that an interruption leaves is released at the very end."""
        try:
            hold_lock(run, hosts)
            yield
        finally:
            lock, run.lock = run.lock, None
            if lock is not None:
                self._locks.append(lock)
                lock.release()
                self._locks.remove(lock)

    def _settle(self, key: GroupKey, group: _Group, before: GroupState) -> None:
        """A restart has come to its end: healthy, or another's business now."""
        if group.state.phase == "healthy" and group.run is not None:
            group.run.healthy_after[key[1]] = group.state.since - before.since
            if key[1] >= 0:
                threading.Thread(target=self._rejoin, args=(key, group.run), daemon=True).start()
            self._end(group, ExitStatus.OK)
        else:
            self._end(group, ExitStatus.FAILED)

    def _rejoin(self, key: GroupKey, run: Run) -> None:
        """Beside the supervision: a router may take a while to hold a worker for healthy."""
        try:
            rejoin(run, [key[1]])
        except (OrcError, KeyboardInterrupt) as error:
            self._say(key, "warning", str(error))

    def _end(self, group: _Group, status: ExitStatus) -> None:
        """The restart that is under way has ended so."""
        if group.run is not None:
            end_change(group.run, status)
            group.run = None

    def _new_run(self, key: GroupKey) -> Run:
        return Run(self.inventory, self.pool, self._emit, name=key[0], request=self.request)

    def _say(self, key: GroupKey, kind: str, text: str) -> None:
        group = self._groups.get(key)
        phase = group.state.phase if group else "removed"
        message = f"{key[0]} {group_name(key[1])}: {text}"
        data = {"deployment": key[0], "phase": phase}
        self._emit(Event(kind, message, replica=key[1], data=data))  # type: ignore[arg-type]

    def _say_of(self, deployment: str, text: str) -> None:
        self._emit(Event("note", f"{deployment}: {text}", data={"deployment": deployment}))

    def _emit(self, event: Event) -> None:
        with self._emitting:
            self.emit(event)


def _shown(members: Members) -> str:
    return ", ".join(f"rank {s.rank} on {s.host}" for s in members.values())
