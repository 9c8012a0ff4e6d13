"""Presets of a recipe: configurations that somebody measured."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from orchestrator.recipes.part import Arguments, Environment, Part, PoolMode


class PresetSource(Part):
    label: str
    href: str
    key: str | None = None
    revision: str | None = None


class PresetSelect(Part):
    frontend: str | None = None
    features: dict[str, bool | str] = Field(default_factory=dict)
    kv_offload: str | None = None
    nodes: int | None = None
    pd_router: str | None = None


class PresetRole(Part):
    nodes: int | None = None
    parallelism: PoolMode | None = None
    tp: int | None = None
    args: Arguments = ()
    env: Environment = Field(default_factory=dict)


class PresetPoint(Part):
    """One point of a preset: what it adds for one concurrency."""

    label: str = ""
    description: str = ""
    concurrency: int | None = None
    default: bool = False
    tp: int | None = None
    args: Arguments = ()
    env: Environment = Field(default_factory=dict)
    json_args: dict[str, dict[str, Any]] = Field(default_factory=dict)
    remove_args: tuple[str, ...] = ()
    select: PresetSelect | None = None
    roles: dict[Literal["prefill", "decode"], PresetRole] = Field(default_factory=dict)


class Preset(Part):
    """A configuration measured by somebody, for one hardware and strategy."""

    label: str
    hardware: str
    strategy: str
    description: str = ""
    variants: tuple[str, ...] = ()
    workload: str | None = None
    default: bool = False
    source: PresetSource | None = None
    image: str | dict[str, str] | None = None
    runbook: str | None = None
    tp: int | None = None
    select: PresetSelect | None = None
    args: Arguments = ()
    env: Environment = Field(default_factory=dict)
    json_args: dict[str, dict[str, Any]] = Field(default_factory=dict)
    remove_args: tuple[str, ...] = ()
    points: dict[str, PresetPoint] = Field(default_factory=dict)
    roles: dict[Literal["prefill", "decode"], PresetRole] = Field(default_factory=dict)
