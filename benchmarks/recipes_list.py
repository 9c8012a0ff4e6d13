"""How long `orc recipes list` takes: with no index, and with one; and their ratio.

    python -m benchmarks.recipes_list [CATALOG ...]

Whole processes, as a user starts them; the best of five with the index.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time


def seconds(env: dict[str, str]) -> float:
    """The wall time of one `orc recipes list`."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "orchestrator", "recipes", "list", "--json"]
    subprocess.run(command, env=env, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def main() -> None:
    with tempfile.TemporaryDirectory() as cache:
        env = {**os.environ, "XDG_CACHE_HOME": cache, "ORC_RECIPES": ":".join(sys.argv[1:])}
        cold = seconds(env)
        warm = min(seconds(env) for _ in range(5))
    print(f"no index {cold:.3f} s, with the index {warm:.3f} s: {cold / warm:.1f} times as fast")


if __name__ == "__main__":
    main()
