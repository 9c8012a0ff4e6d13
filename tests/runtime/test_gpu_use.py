"""GPU use as the vendors' commands print it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from orchestrator.runtime.gpu_use import GPU_USE, GpuUse, parse_gpu_use

# rocm-smi --showuse --showmeminfo vram --json, of ROCm 6 and of ROCm 5.
ROCM = (
    '{"card0": {"GPU use (%)": "97", "VRAM Total Memory (B)": "206141652992", '
    '"VRAM Total Used Memory (B)": "103070826496"}}'
)
ROCM_LOWER = ROCM.replace("GPU use", "GPU Use").replace("Total Memory", "total memory")


def test_nvidia_smi_gives_memory_and_use() -> None:
    lines = ["@gpu 1, 1024, 81559, 7", "@gpu 0, 80000, 81559, 100", "@gpu 2, [N/A], [N/A], 3"]
    assert parse_gpu_use(lines) == (
        GpuUse(0, 80000, 81559, 100),
        GpuUse(1, 1024, 81559, 7),
        GpuUse(2, None, None, 3),
    )


@pytest.mark.parametrize("text", [ROCM, ROCM_LOWER, "WARNING: low power\n" + ROCM])
def test_rocm_smi_gives_memory_and_use(text: str) -> None:
    line = "@rocm " + text.replace("\n", "")
    assert parse_gpu_use([line]) == (GpuUse(0, 98296, 196592, 97),)


@pytest.mark.parametrize("line", ["@gpu ", "@gpu a, b", "@rocm ", "@rocm {", "@log x", ""])
def test_what_tells_nothing_is_no_gpu(line: str) -> None:
    assert parse_gpu_use([line]) == ()


def test_the_shell_asks_whichever_command_there_is(tmp_path: Path) -> None:
    def run() -> tuple[GpuUse, ...]:
        done = subprocess.run(
            ["sh"],
            input=GPU_USE + "gpus\n",
            env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return parse_gpu_use(done.stdout.splitlines())

    assert run() == ()
    nvidia, rocm = tmp_path / "nvidia-smi", tmp_path / "rocm-smi"
    nvidia.write_text("#!/bin/sh\nprintf '0, 1, 2, 3\\n1, 4, 5, 6\\n'\n")
    nvidia.chmod(0o755)
    assert run() == (GpuUse(0, 1, 2, 3), GpuUse(1, 4, 5, 6))
    rocm.write_text(f"#!/bin/sh\ncat <<'E'\n{ROCM}\nE\n")
    rocm.chmod(0o755)
    nvidia.write_text("#!/bin/sh\nexit 9\n")
    assert run() == (GpuUse(0, 98296, 196592, 97),)
