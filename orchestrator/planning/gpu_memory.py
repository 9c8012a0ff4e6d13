"""The memory of a host's GPUs: what the inventory says, else its facts, else its profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orchestrator.errors import PlanError
from orchestrator.facts.host_facts import HostFacts
from orchestrator.inventory.host import Host
from orchestrator.recipes.resolved import HardwareProfile
from orchestrator.topology.layout import Layout

# Drivers report up to 6% less than is sold (an L40S of 48 GB with ECC: 45.0 GiB), so that facts
# within this count as agreeing, and a plan is the same with facts and without.
TOLERANCE = 0.1


def gpu_memory(
    host: Host, profile: HardwareProfile, facts: HostFacts | None, gpus: Sequence[int]
) -> float | None:
    """GiB of each GPU that may be used, of the smallest where they differ; None: not known.

    `orc_gpu_memory_gb` counts, else the profile (whose "GB", as vendors use it, are GiB within
    1%), unless facts say otherwise by more than a tenth. Raises PlanError when the inventory's
    own number is contradicted by facts.
    """
    declared = host.settings.gpu_memory_gb
    measured = _measured(facts, gpus)
    expected = declared or profile_memory(profile)
    if measured is None or expected is None:
        return expected or measured
    if measured >= expected * (1 - TOLERANCE) and (declared or not _larger(measured, expected)):
        return expected
    if declared:
        raise PlanError(
            f"orc_gpu_memory_gb is {declared:g}, but its GPUs have {measured:.1f} GiB",
            where=host.name,
            hint=f"set orc_gpu_memory_gb: {measured:.0f}, or leave it out",
        )
    return measured


def memory_notes(layout: Layout, hosts: Mapping[str, Host], profile: HardwareProfile) -> list[str]:
    """Which hosts' GPUs are not what the profile says, with both numbers (planned as they are)."""
    expected = profile_memory(profile)
    if expected is None:
        return []
    other: dict[float, list[str]] = {}
    for node in layout.nodes:
        memory, name = node.slot.gpu_memory, node.slot.host
        if memory is None or hosts[name].settings.gpu_memory_gb or memory == expected:
            continue
        found = other.setdefault(round(memory, 1), [])
        if name not in found:
            found.append(name)
    return [
        f"the GPUs of {', '.join(names[:8])}{', ...' if len(names) > 8 else ''} have {memory:.1f} "
        f"GiB, and profile {profile.name} says {expected:g}: planned with what they have; "
        "correct orc_hardware, or say orc_gpu_memory_gb"
        for memory, names in other.items()
    ]


def profile_memory(profile: HardwareProfile) -> float | None:
    """GiB of one GPU of the profile."""
    return profile.vram_gb / profile.gpu_count if profile.vram_gb > 0 else None


def _larger(measured: float, expected: float) -> bool:
    return measured > expected * (1 + TOLERANCE)


def _measured(facts: HostFacts | None, gpus: Sequence[int]) -> float | None:
    """GiB by the facts; a GPU with unified memory reports none."""
    if facts is None:
        return None
    sizes = [gpu.memory_mib for gpu in facts.gpus if gpu.index in gpus and gpu.memory_mib]
    return min(sizes) / 1024 if sizes else None
