"""Watch replicas until each is healthy or has failed: containers and endpoints, side by side.

A thread for each host looks at its containers every two seconds, and one for each endpoint asks
it, so that neither a host that hangs nor a completion that takes minutes delays the news of a
dead rank. What the looks mean is decided by `judge`, which is pure.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from orchestrator.errors import OrcError, UnreachableError
from orchestrator.health.endpoint import EndpointCheck, Target, check_endpoint
from orchestrator.health.judge import EndpointLook, HostLook, RankKey, Verdict, judge
from orchestrator.health.observation import observe_host
from orchestrator.runtime.containers import HostObservation
from orchestrator.transport.connection import Connection

LOOK_INTERVAL = 2.0  # seconds between two looks at a host: a death is known within 5
STALE_AFTER = 10.0  # seconds without an answer before a host counts as not answering
_COMPLETION_TIMEOUT = 120.0
_TICK = 0.25
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")

Connect = Callable[[str], Connection]


@dataclass(frozen=True, slots=True)
class Group:
    """One replica: its ranks, of which the first is the head, and its endpoints."""

    replica: int
    ranks: tuple[RankKey, ...]
    targets: tuple[Target, ...]
    restarts: Mapping[str, int] = field(default_factory=dict)

    @property
    def head(self) -> RankKey:
        return self.ranks[0]


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for a replica, how often to ask its endpoint, whether for a completion."""

    timeout: float
    interval: float = 5.0
    completion: bool = True


class Watch(AbstractContextManager["Watch"]):
    """Looks at hosts and endpoints in the background while the context is open."""

    def __init__(
        self,
        connect: Connect,
        groups: Sequence[Group],
        patience: Patience,
    ) -> None:
        self._connect = connect
        self._groups = groups
        self._patience = patience
        self._stop = threading.Event()
        self._hurry = {r.host: threading.Event() for group in groups for r in group.ranks}
        self._lock = threading.Lock()
        self._looks: dict[str, HostLook] = {}
        self._endpoints: dict[Target, EndpointLook] = {}
        self.began = time.monotonic()

    def __enter__(self) -> Watch:
        for name in self._hurry:
            self._start(self._watch_host, name)
        for group in self._groups:
            for target in group.targets:
                self._start(self._watch_endpoint, target)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        for event in self._hurry.values():
            event.set()

    def seconds(self) -> float:
        return time.monotonic() - self.began

    def verdict(self, group: Group) -> Verdict:
        """The group as last seen; past the deadline what still waits has failed."""
        with self._lock:
            looks = {name: _aged(look) for name, look in self._looks.items()}
            endpoints = [self._endpoints.get(target) for target in group.targets]
        verdict = judge(group.ranks, looks, endpoints, started=self.began, restarts=group.restarts)
        if verdict.state == "waiting" and self.seconds() >= self._patience.timeout:
            text = f"not healthy after {self._patience.timeout:.0f} s: {verdict.detail}"
            return Verdict("failed", text, unreachable=verdict.unreachable)
        return verdict

    def endpoints(self, group: Group) -> dict[Target, EndpointCheck]:
        """The latest check of each of the group's endpoints."""
        with self._lock:
            looks = {t: self._endpoints[t] for t in group.targets if t in self._endpoints}
        return {target: look.check for target, look in looks.items()}

    def snapshot(self, verdicts: Mapping[int, Verdict]) -> dict[str, Any]:
        """The `nodes` event's data: every rank's container, every replica's state."""
        with self._lock:
            looks = dict(self._looks)
        nodes, replicas = [], []
        for group in self._groups:
            verdict = verdicts[group.replica]
            head = looks.get(group.head.host)
            line = ""
            if head and head.observation:
                line = _plain(head.observation.last_lines.get(group.head.name, ""))
            replicas.append(
                {
                    "replica": group.replica,
                    "state": verdict.state,
                    "detail": verdict.detail,
                    "last_line": line,
                }
            )
            nodes += [_node_row(group.replica, rank, looks.get(rank.host)) for rank in group.ranks]
        return {
            "seconds": round(self.seconds(), 1),
            "timeout": self._patience.timeout,
            "replicas": replicas,
            "nodes": nodes,
        }

    def _start(self, function: Callable[..., None], *arguments: Any) -> None:
        # Daemons: a thread that hangs on a dead network must not keep orc from ending.
        def work() -> None:
            with contextlib.suppress(KeyboardInterrupt):  # the pool was interrupted
                function(*arguments)

        threading.Thread(target=work, daemon=True).start()

    def _watch_host(self, name: str) -> None:
        heads = [group.head.name for group in self._groups if group.head.host == name]
        while not self._stop.is_set():
            began = time.monotonic()
            look = self._look(name, began, heads)
            with self._lock:
                self._looks[name] = look
            self._hurry[name].wait(max(0.2, LOOK_INTERVAL - (time.monotonic() - began)))
            self._hurry[name].clear()

    def _look(self, name: str, began: float, heads: list[str]) -> HostLook:
        try:
            connection = self._connect(name)
            return HostLook(began, observe_host(connection, heads))
        except UnreachableError as error:
            return HostLook(began, unreachable=error.what)
        except OrcError as error:
            return HostLook(began, HostObservation(name, error=error.what))

    def _watch_endpoint(self, target: Target) -> None:
        failures = 0
        while not self._stop.is_set():
            check = self._check(target)
            failed = check.stage == "completion" and (check.status or 0) >= 500
            failures = failures + 1 if failed else 0
            with self._lock:
                self._endpoints[target] = EndpointLook(time.monotonic(), check, failures)
            if check.healthy:
                for event in self._hurry.values():  # a look at every rank is all that is missing
                    event.set()
                return
            pause = self._patience.interval
            self._stop.wait(min(pause, LOOK_INTERVAL) if check.stage == "connect" else pause)

    def _check(self, target: Target) -> EndpointCheck:
        try:
            left = self._patience.timeout - self.seconds()
            return check_endpoint(
                self._connect(target.host),
                target,
                completion=self._patience.completion,
                completion_timeout=max(5.0, min(_COMPLETION_TIMEOUT, left)),
            )
        except OrcError as error:
            return EndpointCheck("connect", error.what)


def wait_healthy(
    watch: Watch,
    groups: Sequence[Group],
    on_step: Callable[[dict[str, Any]], None],
    on_end: Callable[[Group, Verdict], None],
) -> dict[int, Verdict]:
    """Wait until every group is healthy or has failed; returns the verdicts by replica.

    `on_end` is called the moment a group's end is known, `on_step` about once a second.
    """
    ended: dict[int, Verdict] = {}
    next_step = time.monotonic() + 2 * _TICK  # the first looks are there by then
    while True:
        verdicts = {g.replica: ended.get(g.replica) or watch.verdict(g) for g in groups}
        for group in groups:
            verdict = verdicts[group.replica]
            if group.replica not in ended and verdict.state != "waiting":
                ended[group.replica] = verdict
                on_step(watch.snapshot(verdicts))
                on_end(group, verdict)
        if len(ended) == len(groups):
            return ended
        if time.monotonic() >= next_step:
            on_step(watch.snapshot(verdicts))
            next_step = time.monotonic() + 1.0
        time.sleep(_TICK)


def _plain(line: str) -> str:
    """A log line without colours, cut to what fits beside other text."""
    line = _COLOUR.sub("", line).strip()
    return line if len(line) <= 160 else line[:157] + "..."


def _aged(look: HostLook) -> HostLook:
    age = time.monotonic() - look.began
    if look.unreachable is None and age > STALE_AFTER:
        return HostLook(look.began, unreachable=f"no answer for {age:.0f} s")
    return look


def _node_row(replica: int, rank: RankKey, look: HostLook | None) -> dict[str, Any]:
    state, up = "not looked at yet", None
    if look is not None and _aged(look).unreachable is not None:
        state = "unknown"
    elif look is not None and look.observation is not None:
        found = next((s for s in look.observation.containers if s.name == rank.name), None)
        if look.observation.error:
            state = f"docker: {look.observation.error}"
        elif found is None:
            state = "no container"
        else:
            state, up = found.status if found.running else found.ending(), found.up_seconds
    return {
        "replica": replica,
        "rank": rank.rank,
        "name": rank.name,
        "host": rank.host,
        "state": state,
        "up_seconds": None if up is None else round(up),
    }
