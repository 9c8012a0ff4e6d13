"""The part of a recipe that is for vLLM-Omni: images, video and sound out."""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from orchestrator.recipes.part import Arguments, Part


class OmniOption(Part):
    id: str
    label: str = ""


class OmniAxis(Part):
    id: str
    label: str = ""
    options: tuple[OmniOption, ...] = ()


class OmniTask(Part):
    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, value: Any) -> Any:
        """A task may be written as its name alone."""
        return {"id": value} if isinstance(value, str) else value

    id: str
    key: str | None = None
    label: str | None = None
    description: str = ""
    axes: dict[str, str] = Field(default_factory=dict)
    curl: str | None = None
    endpoint: str | None = None
    extra_args: Arguments = ()
    model_id: str | None = None
    vram_minimum_gb: float | None = None


class Omni(Part):
    """How vLLM-Omni serves this model: tasks, each with its own checkpoint or arguments."""

    port: int | None = None
    serve_binary: str | None = None
    task_label: str | None = None
    task_hint: str | None = None
    variant_label: str | None = None
    variant_hint: str | None = None
    task_axes: tuple[OmniAxis, ...] = ()
    tasks: tuple[OmniTask, ...] = ()
