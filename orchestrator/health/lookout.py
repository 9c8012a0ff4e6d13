"""Looks at hosts and endpoints again and again in the background, each in a thread of its own, so
that one that hangs delays no news of another."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType

import httpx

from orchestrator.errors import OrcError, UnreachableError
from orchestrator.health import http
from orchestrator.health.endpoint import EndpointCheck, Target, check_endpoint
from orchestrator.health.judge import HostLook
from orchestrator.health.observation import observe_host
from orchestrator.health.supervise import Canary
from orchestrator.health.watch import Connect
from orchestrator.runtime.containers import HostObservation
from orchestrator.transport.connection import Connection

STALE_AFTER = 20.0  # seconds without an answer before a host counts as not answering
_TOKENS = re.compile(r"^vllm:(?:generation|prompt)_tokens_total\{[^}]*\} (\S+)$", re.M)


@dataclass(frozen=True, slots=True)
class Answer:
    """A canary's result, and when the question was asked and answered (monotonic)."""

    began: float
    ended: float
    canary: Canary


class Lookout(AbstractContextManager["Lookout"]):
    """`interval` and `canary_interval` are the seconds between two looks; a completion has
    `canary_timeout` seconds to come."""

    def __init__(
        self,
        connect: Connect,
        hosts: Iterable[str],
        *,
        interval: float,
        canary_interval: float,
        canary_timeout: float,
    ) -> None:
        self._connect = connect
        self._hosts = list(hosts)
        self._interval = interval
        self._canary_interval = canary_interval
        self._canary_timeout = canary_timeout
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._looks: dict[str, HostLook] = {}
        self._answers: dict[Target, Answer] = {}
        self._targets: set[Target] = set()

    def __enter__(self) -> Lookout:
        for name in self._hosts:
            self._start(partial(self._watch_host, name))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()

    def looks(self) -> dict[str, HostLook]:
        """The latest look at each host that was looked at."""
        with self._lock:
            return {name: _aged(look) for name, look in self._looks.items()}

    def answers(self) -> dict[Target, Answer]:
        with self._lock:
            return dict(self._answers)

    def ask(self, targets: Iterable[Target]) -> None:
        """Ask these endpoints from now on, and no others."""
        wanted = set(targets)
        with self._lock:
            new = wanted - self._targets
            for gone in self._targets - wanted:
                self._answers.pop(gone, None)
            self._targets = wanted
        for target in new:
            self._start(partial(self._watch_endpoint, target))

    def _start(self, work: Callable[[], None]) -> None:
        # Daemons: a thread that hangs on a dead network must not keep orc from ending.
        def suppressed() -> None:
            with contextlib.suppress(KeyboardInterrupt):  # the pool was interrupted
                work()

        threading.Thread(target=suppressed, daemon=True).start()

    def _watch_host(self, name: str) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            look = self._look(name, began)
            with self._lock:
                self._looks[name] = look
            self._stop.wait(max(0.2, self._interval - (time.monotonic() - began)))

    def _look(self, name: str, began: float) -> HostLook:
        try:
            return HostLook(began, observe_host(self._connect(name)))
        except UnreachableError as error:
            return HostLook(began, unreachable=error.one_line)
        except OrcError as error:
            return HostLook(began, HostObservation(name, error=error.one_line))

    def _watch_endpoint(self, target: Target) -> None:
        tokens: float | None = None
        while not self._stop.is_set() and target in self._targets:
            began = time.monotonic()
            try:
                connection = self._connect(target.host)
                check = check_endpoint(connection, target, completion_timeout=self._canary_timeout)
                before, tokens = tokens, _tokens(connection, target) if check.slow else None
                busy = before is not None and tokens is not None and tokens > before
                canary = judge_check(check, busy=busy)
            except OrcError as error:
                canary = Canary("waiting", error.what)
            with self._lock:
                if target in self._targets:
                    self._answers[target] = Answer(began, time.monotonic(), canary)
            # What does not answer yet is asked more often: it is being started.
            pause = min(2.0, self._canary_interval)
            self._stop.wait(pause if canary.result == "waiting" else self._canary_interval)


def judge_check(check: EndpointCheck, *, busy: bool = False) -> Canary:
    """What a look at an endpoint says of its group. `busy`: it has no time for the canary, but
    works: it has made tokens for others since the last look."""
    if check.healthy or (check.slow and busy):
        return Canary("ok", check.detail)
    if check.key_refused:
        return Canary("refused", check.detail)
    if check.stage in ("connect", "health"):
        return Canary("waiting", check.detail)
    return Canary("failed", check.detail)


def _tokens(connection: Connection, target: Target) -> float | None:
    """How many tokens it has read and written since it started; None when it does not say."""
    headers = {"Authorization": f"Bearer {target.api_key.reveal()}"} if target.api_key else {}
    try:
        with http.client(connection, timeout=10.0) as client:
            found = _TOKENS.findall(client.get(f"{target.url}/metrics", headers=headers).text)
    except httpx.HTTPError:
        return None
    return sum(map(float, found)) if found else None


def _aged(look: HostLook) -> HostLook:
    age = time.monotonic() - look.began
    if look.unreachable is None and age > STALE_AFTER:
        return replace(look, observation=None, unreachable=f"no answer for {age:.0f} s")
    return look
