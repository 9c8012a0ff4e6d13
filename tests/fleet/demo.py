"""`python -m tests.fleet.demo`: the main job on a real fleet on this machine, shown step by step.

Two hosts with their own sshd and dockerd, a registry, and real vLLM on the CPU: one model is
split over both hosts by tensor parallel, answers a completion, and is taken down again.
"""

from __future__ import annotations

import shlex
import subprocess
import sys

from tests.fleet.commands import FleetError
from tests.fleet.debian import why_not
from tests.fleet.fleet import Fleet


def main() -> int:
    if reason := why_not():
        print(f"demo: {reason}", file=sys.stderr)
        return 1
    try:
        fleet = Fleet.up(2)
    except FleetError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    try:
        return _show(fleet)
    except KeyboardInterrupt:
        return 130
    finally:
        fleet.down()


def _show(fleet: Fleet) -> int:
    selection = ["--recipe", "orc/tiny-llama", "--strategy", "multi_node_tp", "--name", "demo"]
    selection += ["--image", fleet.image]
    steps = [
        ["plan", *selection],
        ["up", *selection],
        ["status"],
        ["probe"],
        ["up", *selection],  # again: finds everything as planned, and touches nothing
        ["logs", "--tail", "3"],
        ["down", "--yes"],
        ["status"],
    ]
    for step in steps:
        words = ["orc", step[0], "-i", str(fleet.inventory), *step[1:]]
        print(f"\n$ {shlex.join(words)}", flush=True)
        done = subprocess.run([sys.executable, "-m", "orchestrator", *words[1:]], check=False)
        if done.returncode != 0:
            print(f"demo: that ended with status {done.returncode}", file=sys.stderr)
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
