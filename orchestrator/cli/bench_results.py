"""Results of benchmarks: kept beside the spec that they are of, listed, compared."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.errors import InputError, did_you_mean
from orchestrator.state_directory import state_directory

# Of the result of vLLM 0.32.0: a name and unit for people, the key, a factor, and whether more
# is better.
_METRICS = (
    ("Request throughput (req/s)", "request_throughput", 1.0, True),
    ("Output token throughput (tok/s)", "output_throughput", 1.0, True),
    ("Total token throughput (tok/s)", "total_token_throughput", 1.0, True),
    ("Mean TTFT (s)", "mean_ttft_ms", 0.001, False),
    ("Median TTFT (s)", "median_ttft_ms", 0.001, False),
    ("P99 TTFT (s)", "p99_ttft_ms", 0.001, False),
    ("Mean TPOT (ms)", "mean_tpot_ms", 1.0, False),
    ("P99 TPOT (ms)", "p99_tpot_ms", 1.0, False),
    ("Mean ITL (ms)", "mean_itl_ms", 1.0, False),
    ("P99 ITL (ms)", "p99_itl_ms", 1.0, False),
    ("Duration (s)", "duration", 1.0, False),
    ("Successful requests", "completed", 1.0, True),
    ("Failed requests", "failed", 1.0, False),
)


@dataclass(frozen=True, slots=True)
class BenchRun:
    """One benchmark: of which spec, from where, with which words, and vLLM's own result.

    `spec` is in 12 digits; `time` is seconds since the epoch.
    """

    id: str
    deployment: str
    time: float
    spec: str
    image: str
    host: str
    endpoint: str
    command: Sequence[str]
    result: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def metric(self, key: str) -> float | None:
        value = self.result.get(key)
        return float(value) if isinstance(value, int | float) else None


def directory() -> Path:
    return state_directory() / "bench"


def store(run: BenchRun) -> BenchRun:
    """Keep a run under the next free number of its deployment; returns it with its id."""
    place = directory() / run.deployment
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    number = max(
        (int(path.stem) for path in place.glob("*.json") if path.stem.isdigit()), default=0
    )
    while True:
        number += 1
        kept = BenchRun(**{**run.to_dict(), "id": f"{run.deployment}/{number}"})
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        try:
            descriptor = os.open(place / f"{number}.json", flags, 0o600)
        except FileExistsError:  # another orc bench was faster
            continue
        with os.fdopen(descriptor, "w") as file:
            json.dump(kept.to_dict(), file, indent=2)
        return kept


def runs(deployment: str | None = None) -> list[BenchRun]:
    """Every run that is kept, of one deployment or of all, in their order."""
    found = [_read(path) for path in sorted(directory().glob(f"{deployment or '*'}/*.json"))]
    return sorted(found, key=lambda run: run.time)


def run(identifier: str) -> BenchRun:
    """The run `kimi/3`. Raises InputError, naming the nearest, when there is none."""
    deployment, _, number = identifier.partition("/")
    path = directory() / deployment / f"{number}.json"
    if ".." in identifier or not path.is_file():
        known = [one.id for one in runs()]
        raise InputError(
            f"there is no benchmark {identifier!r}", hint=did_you_mean(identifier, known)
        )
    return _read(path)


def _read(path: Path) -> BenchRun:
    try:
        return BenchRun(**json.loads(path.read_text()))
    except (ValueError, TypeError) as error:
        raise InputError(f"not a result of orc bench: {error}", where=str(path)) from None


@dataclass(frozen=True, slots=True)
class Comparison:
    """One metric of two runs. `improvement` is in percent, and positive where it got better."""

    metric: str
    before: float
    after: float
    improvement: float | None

    @property
    def change(self) -> float:
        return self.after - self.before


def compare(first: BenchRun, second: BenchRun) -> list[Comparison]:
    """Every metric that both have."""
    found = []
    for name, key, factor, more_is_better in _METRICS:
        before, after = first.metric(key), second.metric(key)
        if before is None or after is None:
            continue
        gain = (after - before if more_is_better else before - after) / before if before else None
        improvement = None if gain is None else gain * 100
        found.append(Comparison(name, before * factor, after * factor, improvement))
    return found


def comparison_table(first: BenchRun, second: BenchRun) -> list[str]:
    """A Markdown table: metric, both runs, change and improvement."""
    rows = [("Metric", first.id, second.id, "Change", "Improvement")]
    for one in compare(first, second):
        better = "" if one.improvement is None else f"{one.improvement:+.1f}%"
        rows.append(
            (one.metric, _number(one.before), _number(one.after), _signed(one.change), better)
        )
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = [_row(row, widths) for row in rows]
    return [lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]]


def metrics_table(one: BenchRun) -> list[str]:
    """The metrics of one run."""
    return [
        f"{name:<32} {_number(value * factor)}"
        for name, key, factor, _ in _METRICS
        if (value := one.metric(key)) is not None
    ]


def list_table(found: Sequence[BenchRun]) -> list[str]:
    """One line for each run."""
    rows = [("ID", "WHEN", "SPEC", "REQUESTS", "REQ/S", "OUTPUT TOK/S", "MEAN TTFT"), *_rows(found)]
    widths = [max(len(row[column]) for row in rows) for column in range(7)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _rows(found: Sequence[BenchRun]) -> Iterator[tuple[str, ...]]:
    from datetime import datetime

    for one in found:
        when = datetime.fromtimestamp(one.time).strftime("%Y-%m-%d %H:%M")
        ttft = one.metric("mean_ttft_ms")
        yield (
            *(one.id, when, one.spec),
            *(_shown(one.metric(k)) for k in ("completed", "request_throughput")),
            _shown(one.metric("output_throughput")),
            "-" if ttft is None else f"{_number(ttft / 1000)} s",
        )


def _shown(value: float | None) -> str:
    return "-" if value is None else _number(value)


def _row(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
    return "| " + " | ".join(cells) + " |"


def _number(value: float) -> str:
    if value == int(value):
        return str(int(value))
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3g}"


def _signed(value: float) -> str:
    return f"{'+' if value >= 0 else '-'}{_number(abs(value))}"
