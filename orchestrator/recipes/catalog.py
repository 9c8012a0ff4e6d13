"""A catalog: directories of recipes, strategies, KV stores and hardware profiles.

Nothing is read before it is wanted: a resolution parses one model file, the taxonomy, and the
strategies. Where several directories hold a thing of one name, the first directory's counts; the
catalog that ships with `orc` always stands last.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from orchestrator.deployment import Deployment
from orchestrator.documents import expand_user, read_document
from orchestrator.errors import InputError, did_you_mean
from orchestrator.recipes.directories import catalog_directories
from orchestrator.recipes.part import Part
from orchestrator.recipes.recipe_file import SUFFIXES, RecipeFile, read_recipe, recipe_files
from orchestrator.recipes.resolve import resolve
from orchestrator.recipes.resolved import HardwareProfile, ResolvedRecipe
from orchestrator.recipes.selection import Offer, Selection, select
from orchestrator.recipes.site_page import check_page
from orchestrator.recipes.taxonomy import KvStoreFile, StrategyFile, Taxonomy

# org/repo, each of which a file system can hold as a name.
_IN_CATALOG = re.compile(r"(?!\.)[^/\0]{1,100}/(?!\.)[^/\0]{1,100}")

Parsed = TypeVar("Parsed", bound=Part)


@dataclass(frozen=True)
class Catalog:
    """Recipes by name, and what they can be resolved with. Read lazily, kept once read."""

    directories: tuple[Path, ...]
    _recipes: dict[str, RecipeFile] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def load(cls, directories: Path | str | Sequence[Path | str] | None = None) -> Catalog:
        """The catalog of one or several directories, the first wins; None: the packaged one.

        The packaged catalog is always searched last. Raises InputError for a directory that
        does not exist or holds no catalog.
        """
        return cls(catalog_directories(directories))

    def hardware(self, name: str) -> HardwareProfile:
        """The hardware profile `name`. Raises InputError listing what there is."""
        if name not in self.profiles:
            raise InputError(
                f"there is no hardware profile {name!r}", hint=did_you_mean(name, self.profiles)
            )
        return self.profiles[name]

    def resolve(
        self, deployment: Deployment, hardware: str, *, nodes: int | None = None
    ) -> ResolvedRecipe:
        """What the deployment's recipe comes to on `hardware`.

        `nodes` is the number of nodes per replica, when it is known; it decides the recommended
        strategy where the deployment names none. Raises InputError for an unknown name, listing
        what there is, and for a combination that the recipe forbids.
        """
        resolved = resolve(self.select(deployment, hardware, nodes=nodes), deployment)
        page = self.recipe(deployment.recipe).page
        return replace(resolved, features=page.features) if page else resolved

    def select(
        self, deployment: Deployment, hardware: str, *, nodes: int | None = None
    ) -> Selection:
        """The checked choices of `resolve`, before their layers are laid together."""
        found = self.recipe(deployment.recipe)
        if found.page:
            check_page(found.page, found.document.path, _asked(deployment, hardware))
            deployment = deployment.model_copy(update={"features": None})
        return select(
            found.name,
            found.document.path,
            found.recipe,
            deployment,
            self.hardware(hardware),
            self._offer,
            nodes,
        )

    def recipe(self, name: str) -> RecipeFile:
        """The recipe `org/repo`, or the one in a file. Raises InputError."""
        if name not in self._recipes:
            self._recipes[name] = self._read(name)
        return self._recipes[name]

    def names(self) -> list[str]:
        """All recipes, by name."""
        return sorted(self.files())

    def files(self) -> dict[str, Path]:
        """The file of every recipe by the recipe's name."""
        found: dict[str, Path] = {}
        for directory in reversed(self.directories):
            found |= recipe_files(directory)
        return found

    def _read(self, name: str) -> RecipeFile:
        for directory in self.directories if _IN_CATALOG.fullmatch(name) else ():
            for suffix in SUFFIXES:
                path = directory / "models" / f"{name}{suffix}"
                if path.is_file():
                    return read_recipe(path, name)
        path = expand_user(name)
        if path.suffix in SUFFIXES:
            return read_recipe(path)
        raise InputError(f"there is no recipe {name!r}", hint=_nearest_recipe(name, self.names()))

    @cached_property
    def profiles(self) -> dict[str, HardwareProfile]:
        """All hardware profiles by name."""
        return {
            name: HardwareProfile(
                name=name,
                brand=hardware.brand,
                generation=hardware.generation,
                gpu_count=hardware.gpu_count,
                vram_gb=hardware.vram_gb,
                display_name=hardware.display_name or name,
                scalable=hardware.scalable,
                restricted=hardware.restricted,
                compute_arch=hardware.compute_arch,
            )
            for name, hardware in self.taxonomy.hardware_profiles.items()
        }

    @cached_property
    def taxonomy(self) -> Taxonomy:
        """The taxonomies of all directories as one, each entry by the first that has it."""
        merged = Taxonomy()
        for directory in self.directories:
            path = directory / "taxonomy.yaml"
            if path.is_file():
                merged = _merge(merged, read_document(path).validate(Taxonomy))
        return merged

    @cached_property
    def strategies(self) -> dict[str, StrategyFile]:
        """All strategies by name."""
        return {found.name: found for found in self._parsed("strategies", StrategyFile)}

    @cached_property
    def kv_stores(self) -> dict[str, KvStoreFile]:
        """All KV stores by name."""
        return {found.name: found for found in self._parsed("kv_store", KvStoreFile)}

    @property
    def _offer(self) -> Offer:
        return Offer(self.strategies, self.taxonomy.kv_offload, self.kv_stores)

    def _parsed(self, part: str, model: type[Parsed]) -> Iterator[Parsed]:
        files: dict[str, Path] = {}
        for directory in reversed(self.directories):
            files |= {path.name: path for path in sorted((directory / part).glob("*.yaml"))}
        for path in files.values():
            yield read_document(path).validate(model)


def _asked(deployment: Deployment, hardware: str) -> dict[str, str | None]:
    """What a deployment asks for in so many words, to hold against a page."""
    named = deployment.model_fields_set
    return {
        "hardware": hardware,
        "strategy": deployment.strategy,
        "variant": deployment.variant if "variant" in named else None,
        "features": None if deployment.features is None else ", ".join(deployment.features),
    }


def _nearest_recipe(name: str, known: list[str]) -> str:
    """The nearest name, also by the part behind the slash alone."""
    by_end = {known_name.split("/")[-1].lower(): known_name for known_name in known}
    end = name.split("/")[-1].lower()
    if end in by_end:
        return f"did you mean {by_end[end]!r}?"
    lower = {known_name.lower(): known_name for known_name in known}
    hint = did_you_mean(name.lower(), [*lower, *by_end])
    for spelled in [*lower, *by_end]:
        if hint == f"did you mean {spelled!r}?":
            return f"did you mean {(lower | by_end)[spelled]!r}?"
    return "`orc recipes list` shows what there is, and a recipe may be given as a file"


def _merge(first: Taxonomy, second: Taxonomy) -> Taxonomy:
    tasks = {task.id: task for task in (*second.tasks, *first.tasks)}
    return Taxonomy(
        hardware_profiles=second.hardware_profiles | first.hardware_profiles,
        tasks=tuple(tasks.values()),
        strategies=tuple(dict.fromkeys((*first.strategies, *second.strategies))),
        kv_offload_groups=second.kv_offload_groups | first.kv_offload_groups,
        kv_offload=second.kv_offload | first.kv_offload,
    )
