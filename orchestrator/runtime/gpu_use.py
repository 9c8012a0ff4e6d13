"""How much of a host's GPUs is in use: a piece of shell for a look at the host, and its parser."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

# A driver that hangs must not hold up the look.
GPU_USE = """
gpus() {
  limit=
  command -v timeout >/dev/null 2>&1 && limit='timeout 5'
  command -v nvidia-smi >/dev/null 2>&1 && $limit nvidia-smi \\
    --query-gpu=index,memory.used,memory.total,utilization.gpu \\
    --format=csv,noheader,nounits </dev/null 2>/dev/null | while IFS= read -r line; do
      printf '@gpu %s\\n' "$line"
    done
  command -v rocm-smi >/dev/null 2>&1 && {
    printf '@rocm '
    $limit rocm-smi --showuse --showmeminfo vram --json </dev/null 2>/dev/null | tr -d '\\n'
    echo
  }
  return 0
}
"""


@dataclass(frozen=True, slots=True)
class GpuUse:
    """One GPU: memory in MiB, and how busy it is in percent; None where it does not say."""

    index: int
    used_mib: int | None
    memory_mib: int | None
    busy_percent: int | None


def parse_gpu_use(lines: Iterable[str]) -> tuple[GpuUse, ...]:
    """The GPUs among the lines that a look at a host printed."""
    found: list[GpuUse] = []
    for line in lines:
        mark, _, rest = line.partition(" ")
        if mark == "@gpu":
            fields = [_integer(field) for field in rest.split(",")]
            if len(fields) == 4 and fields[0] is not None:
                found.append(GpuUse(fields[0], *fields[1:]))
        elif mark == "@rocm":
            found += _rocm(rest)
    return tuple(sorted(found, key=lambda gpu: gpu.index))


def _rocm(text: str) -> list[GpuUse]:
    """An object per card, whose keys changed their case over versions."""
    try:
        cards = json.loads(text[max(0, text.find("{")) :] or "{}")
    except json.JSONDecodeError:
        return []
    found = []
    for card, values in cards.items():
        if not card.startswith("card") or not card[4:].isdigit():
            continue
        known = {key.lower(): _integer(str(value)) for key, value in values.items()}
        used, total = known.get("vram total used memory (b)"), known.get("vram total memory (b)")
        found.append(
            GpuUse(
                int(card[4:]),
                None if used is None else used >> 20,
                None if total is None else total >> 20,
                known.get("gpu use (%)"),
            )
        )
    return found


def _integer(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isdigit() else None
