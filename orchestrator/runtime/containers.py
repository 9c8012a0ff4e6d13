"""What runs on a host: the containers that carry our labels, as one round trip reports them."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from orchestrator.runtime.container import AFTER, BEFORE
from orchestrator.runtime.gpu_use import GpuUse, parse_gpu_use


@dataclass(frozen=True, slots=True)
class ContainerState:
    """A container as docker reports it. Ages are in seconds, by the host's own clock."""

    host: str
    id: str
    name: str
    status: str  # created, running, paused, restarting, removing, exited, dead
    labels: Mapping[str, str] = field(default_factory=dict)
    image: str = ""  # as it was run: a digest reference, unless the image is only local
    image_id: str = ""
    command: tuple[str, ...] = ()  # with its executable first
    pid: int = 0
    exit_code: int = 0
    oom_killed: bool = False
    error: str = ""  # why docker could not start it
    restart_count: int = 0
    up_seconds: float | None = None  # since it started, while it runs
    ended_seconds_ago: float | None = None

    @property
    def deployment(self) -> str | None:
        return self.labels.get("orc.deployment")

    @property
    def aside(self) -> bool:
        """Whether a roll has put it aside: it is kept to go back to, and does not run."""
        return bool(self.deployment) and self.name.endswith((BEFORE, AFTER))

    @property
    def replica(self) -> int:
        return _number(self.labels.get("orc.replica"))

    @property
    def rank(self) -> int:
        return _number(self.labels.get("orc.rank"))

    @property
    def nodes(self) -> int:
        """How many ranks its replica has."""
        return _number(self.labels.get("orc.nodes"))

    @property
    def role(self) -> str:
        return self.labels.get("orc.role", "")

    @property
    def spec(self) -> str:
        return self.labels.get("orc.spec", "")

    @property
    def gpus(self) -> tuple[int, ...]:
        """The GPUs of its host that it was given."""
        given = self.labels.get("orc.gpus", "").split(",")
        return tuple(int(gpu) for gpu in given if gpu.isdecimal())

    @property
    def endpoint(self) -> str | None:
        """The URL of its API, when it serves one."""
        return self.labels.get("orc.endpoint")

    @property
    def model(self) -> str | None:
        """The name under which it serves its model."""
        return self.labels.get("orc.model")

    @property
    def running(self) -> bool:
        return self.status == "running"

    def ending(self) -> str:
        """Why it does not run, in words: `exited 137 (SIGKILL, out of memory)`."""
        if self.status == "created":
            return f"never started{': ' + self.error if self.error else ''}"
        if self.status not in ("exited", "dead"):
            return self.status
        notes = [name for name in (_signal_name(self.exit_code),) if name]
        if self.oom_killed:
            notes.append("out of memory")
        if self.exit_code == 0:
            notes.append("an exit of a rank is a failure, whatever its status")
        return f"exited {self.exit_code}" + (f" ({', '.join(notes)})" if notes else "")


def data_ranks(labels: Mapping[str, str]) -> tuple[int, ...]:
    """The data-parallel ranks behind a container's endpoint: `2-3` of its label is (2, 3)."""
    found = re.fullmatch(r"(\d+)-(\d+)", labels.get("orc.data-ranks", ""))
    return tuple(range(int(found[1]), int(found[2]) + 1)) if found else ()


@dataclass(frozen=True, slots=True)
class HostObservation:
    """What one host said. `error` is what docker said when it did not answer."""

    host: str
    containers: tuple[ContainerState, ...] = ()
    last_lines: Mapping[str, str] = field(default_factory=dict)  # by container name
    gpus: tuple[GpuUse, ...] = ()  # where they were asked for
    error: str | None = None


def parse_observation(host: str, status: int, stdout: str, stderr: str = "") -> HostObservation:
    """What `scripts.observe_script` printed on `host`."""
    complaint = _docker_error(stderr)
    if status != 0 or complaint:
        return HostObservation(host, error=complaint or f"docker ps ended with {status}")
    every_line = stdout.splitlines()
    lines = iter(every_line)
    now = _host_clock(next(lines, ""))
    found: dict[str, ContainerState] = {}
    last_lines: dict[str, str] = {}
    for line in lines:
        if line.startswith("{"):
            state = _container(host, json.loads(line), now)
            found[state.id] = state
        elif line.startswith("@log "):
            last_lines[line.removeprefix("@log ")] = next(lines, "")
    return HostObservation(host, tuple(found.values()), last_lines, parse_gpu_use(every_line))


def parse_log_tails(stdout: str) -> dict[str, list[str]]:
    """What `scripts.log_tails_script` printed: the last lines by container."""
    tails: dict[str, list[str]] = {}
    current: list[str] = []
    for line in stdout.splitlines():
        if line.startswith("@log "):
            current = tails.setdefault(line.removeprefix("@log "), [])
        else:
            current.append(line)
    for lines in tails.values():
        while lines and not lines[-1].strip():
            lines.pop()
    return tails


def _container(host: str, data: dict[str, Any], now: float | None) -> ContainerState:
    state = data["state"]
    status = state["Status"]
    started, finished = _epoch(state.get("StartedAt")), _epoch(state.get("FinishedAt"))
    return ContainerState(
        host=host,
        id=data["id"],
        name=data["name"].lstrip("/"),
        status=status,
        labels=data.get("labels") or {},
        image=data.get("image") or "",
        image_id=data.get("image_id") or "",
        command=(data.get("path") or "", *(data.get("args") or ())),
        pid=state.get("Pid") or 0,
        exit_code=state.get("ExitCode") or 0,
        oom_killed=bool(state.get("OOMKilled")),
        error=state.get("Error") or "",
        restart_count=data.get("restarts") or 0,
        up_seconds=_age(now, started) if status == "running" else None,
        ended_seconds_ago=_age(now, finished) if status in ("exited", "dead") else None,
    )


def _host_clock(line: str) -> float | None:
    match = re.match(r"\d+(\.\d+)?", line)  # busybox's date prints no %N
    return float(match.group()) if match else None


def _epoch(text: str | None) -> float | None:
    """Docker's time, with nanoseconds, which `datetime` does not read; year 1 means never."""
    if not text or text.startswith("0001"):
        return None
    match = re.fullmatch(r"(.*?)(\.\d+)?(Z|[+-]\d\d:\d\d)", text)
    if match is None:
        return None
    whole, fraction, zone = match.groups()
    moment = datetime.fromisoformat(whole + ("+00:00" if zone == "Z" else zone))
    return moment.timestamp() + float(fraction or 0)


def _age(now: float | None, then: float | None) -> float | None:
    return None if now is None or then is None else max(0.0, now - then)


def _signal_name(exit_code: int) -> str | None:
    """Docker reports a process that a signal ended as 128 + its number."""
    if exit_code in (127, 126, 125) or exit_code <= 128:
        return None
    try:
        return signal.Signals(exit_code - 128).name
    except ValueError:
        return None


def _docker_error(stderr: str) -> str | None:
    """The first line of docker's complaint, but for containers that have just gone."""
    for line in stderr.splitlines():
        text = line.strip()
        if (
            text
            and "no such container" not in text.lower()
            and "no such object" not in text.lower()
        ):
            return text
    return None


def _number(text: str | None) -> int:
    return int(text) if text and re.fullmatch(r"-?\d+", text) else 0
