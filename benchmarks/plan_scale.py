"""How long a plan takes and how much memory, from 64 to 4,096 hosts of 8 GPUs.

    python -m benchmarks.plan_scale [--check]

Each size runs in processes of its own, of which the best counts: a small fleet's plan is so short
that anything disturbs it. Times are CPU seconds (there is one thread, and what else the machine
does should not count): of the first `plan()`, which also makes the hosts out of the
inventory's variables, and of the best of two more. The memory is the process's peak with the
inventory, the catalog and the plan in it. "rendered" is what
`orc plan --json` does on top: every command and spec hash. `--check` fails above the targets.

A plan has a fixed part, whatever the fleet (the recipe is resolved and rendered), which at 64
hosts still counts. It is told apart by the line through the plans of 16 and 64 hosts, printed, and
what grows beside it is compared from 64 hosts on.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from orchestrator import Catalog, Deployment, Inventory, plan

HOSTS = (16, 64, 256, 1024, 4096)
PROCESSES = 3
SELECTIONS = {
    "2-node replicas, TP x PP": {"strategy": "multi_node_tp_pp", "nodes": 2, "replicas": "max"},
    "1 GPU per server, hybrid DP": {"strategy": "multi_node_dep", "nodes": 16, "replicas": "max"},
    "uneven memory, TP x PP": {
        "strategy": "multi_node_tp_pp",
        "nodes": 4,
        "replicas": "max",
        "uneven": True,
    },
}
SECONDS, MEGABYTES, GROWTH = 1.0, 300.0, 1.6  # at 4,096 hosts; growth beyond linear


def inventory(directory: Path, hosts: int, uneven: bool) -> Inventory:
    """`hosts` hosts, every third of which has smaller GPUs where they are `uneven`."""
    lines = []
    for n in range(hosts):
        more = ", orc_gpu_memory_gb: 80" if uneven and n % 3 == 0 else ""
        lines.append(f"    node{n:04}: {{ansible_host: 10.{n // 250}.{n % 250}.5{more}}}")
    path = directory / "inventory.yml"
    head = "all:\n  vars: {orc_hardware: h200, orc_interface: bond0}\n  hosts:\n"
    path.write_text(head + "\n".join(lines) + "\n")
    return Inventory.load(path)


def measure(hosts: int, name: str) -> dict[str, float]:
    """Seconds to load, plan and render, and the peak memory in MB."""
    selection = dict(SELECTIONS[name])
    uneven = bool(selection.pop("uneven", False))
    deployment = Deployment.model_validate({"recipe": "moonshotai/Kimi-K2.6", **selection})
    catalog = Catalog.load()
    catalog.resolve(deployment, "h200")  # the recipe's files are read once, whatever the fleet
    with tempfile.TemporaryDirectory() as directory:
        start = time.process_time()
        loaded = inventory(Path(directory), hosts, uneven)
        load = time.process_time() - start
    seconds = []
    for _ in range(3):
        start = time.process_time()
        result = plan(loaded, catalog, deployment)
        seconds.append(time.process_time() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    start = time.process_time()
    result.to_dict()
    render = time.process_time() - start
    return {
        "load": load,
        "first": seconds[0],
        "again": min(seconds[1:]),
        "render": render,
        "megabytes": peak,
    }


def in_processes(hosts: int, name: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.plan_scale", "--one", str(hosts), name]
    rows: list[dict[str, float]] = []
    for _ in range(PROCESSES):
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        rows.append(json.loads(out))
    return {key: min(row[key] for row in rows) for key in rows[0]}


def fixed_part(rows: Mapping[int, Mapping[str, float]]) -> float:
    """Seconds of the first plan that no host adds: where the line of small fleets meets 0 hosts."""
    few, more = HOSTS[:2]
    slope = (rows[more]["first"] - rows[few]["first"]) / (more - few)
    return max(rows[few]["first"] - few * slope, 0.0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail above the targets")
    parser.add_argument("--one", nargs=2, metavar=("HOSTS", "NAME"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(int(options.one[0]), options.one[1])))
        return 0
    missed = []
    for name in SELECTIONS:
        columns = f"{'load s':>8} {'first s':>8} {'again s':>8} {'rendered s':>10} {'MB':>6}"
        print(f"\n{name}\n{'hosts':>6} {columns}")
        rows = {hosts: in_processes(hosts, name) for hosts in HOSTS}
        for hosts, row in rows.items():
            print(
                f"{hosts:>6} {row['load']:>8.2f} {row['first']:>8.3f} {row['again']:>8.3f} "
                f"{row['render']:>10.2f} {row['megabytes']:>6.0f}"
            )
        fixed = fixed_part(rows)
        growth = (rows[4096]["first"] - fixed) / (rows[64]["first"] - fixed) / 64
        print(f"fixed part {fixed:.3f} s; growth from 64 to 4096 hosts: {growth:.2f} x linear")
        last = rows[4096]
        if last["first"] > SECONDS or last["megabytes"] > MEGABYTES or growth > GROWTH:
            missed.append(name)
    if missed:
        print(f"\nabove {SECONDS} s, {MEGABYTES:.0f} MB or {GROWTH} x linear: {'; '.join(missed)}")
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
