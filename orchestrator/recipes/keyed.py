"""Maps that are keyed by hardware: an exact profile, a generation, a brand, or `default`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from orchestrator.recipes.resolved import HardwareProfile

Value = TypeVar("Value")


def for_hardware(
    values: Mapping[str, Value] | None, hardware: HardwareProfile, *, default: bool = True
) -> Value | None:
    """The value for `hardware`: exact name, else generation, else brand, else `default`."""
    keys = [hardware.name, hardware.generation, hardware.brand.lower()]
    for key in [*keys, "default"] if default else keys:
        if values and key in values:
            return values[key]
    return None


def for_generation(
    values: Mapping[str, Value] | None, hardware: HardwareProfile
) -> tuple[str, Value] | None:
    """The override of a generation with its key; `nvidia` stands for all of NVIDIA's.

    Exact profiles are not looked up here: their overrides add to these (see `layers`).
    """
    keys = [hardware.generation]
    if hardware.brand == "NVIDIA":
        keys.append("nvidia")
    for key in keys:
        if values and key in values:
            return key, values[key]
    return None


def sized(size: int | Mapping[str, int] | None, hardware: HardwareProfile) -> int | None:
    """A number that may depend on the hardware."""
    return for_hardware(size, hardware) if isinstance(size, Mapping) else size
