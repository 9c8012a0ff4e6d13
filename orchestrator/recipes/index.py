"""A list of all recipes with what they fit on, cached so that listing them is fast.

The cache is one JSON file in the user's cache directory for each set of catalog directories.
A recipe is read again when its file's modification time or size has changed; everything is, when
a taxonomy or strategy has.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.errors import InputError, OrcError, did_you_mean

if TYPE_CHECKING:
    from orchestrator.recipes.catalog import Catalog
    from orchestrator.recipes.recipe_file import RecipeFile

_FORM = 1  # raised when an entry's form changes
_FITS = re.compile(r"\s*(\d+)\s*[x×]\s*([A-Za-z0-9_]+)\s*")

Entry = dict[str, Any]


@dataclass(frozen=True)
class Index:
    """Entries by recipe name, faults of the files that cannot be read, and hardware profiles.

    An entry has title, provider, tasks, architecture, parameters, min_vllm_version, hardware
    (verified, supported, unsupported), strategies, variants (name -> precision and memory), and
    runs_on: hardware -> its strategies and the memory in GB that each variant needs.
    """

    entries: Mapping[str, Entry]
    profiles: Mapping[str, Mapping[str, Any]]
    faults: Sequence[str] = field(default=())


def load_index(directories: Sequence[Path], cache: Path | None = None) -> Index:
    """The index of catalog directories, by the cache where that is still true.

    A cache that cannot be written is done without. `cache` is the directory it is kept in;
    None: `orc` in the user's cache directory.
    """
    file = _cache_file(directories, cache)
    kept = _read(file)
    state = _state(directories)
    shared = {name: stamp for name, stamp in state.items() if not _is_model(name)}
    old = kept.get("recipes", {}) if kept.get("shared") == shared else {}
    models = {name: stamp for name, stamp in state.items() if _is_model(name)}
    if old.keys() == models.keys() and all(old[name][0] == models[name] for name in models):
        return _index(kept)
    fresh = _build(directories, models, old, shared)
    _write(file, fresh)
    return _index(fresh)


def parse_fits(text: str) -> tuple[int, str]:
    """`2xh200` or `2 x h200` as a number of nodes and a hardware profile. Raises InputError."""
    found = _FITS.fullmatch(text)
    if not found or int(found[1]) < 1:
        raise InputError(f"{text!r} is not NODESxHARDWARE", hint="for example 2xh200")
    return int(found[1]), found[2].lower()


def select_entries(
    index: Index,
    *,
    hardware: str | None = None,
    nodes: int | None = None,
    strategy: str | None = None,
    task: str | None = None,
    memory: float | None = None,
    pattern: str = "",
) -> dict[str, Entry]:
    """The entries that match all that is given, each with the variants that do under `fitting`.

    `nodes` with `hardware`: the variants that fit into the memory of so many hosts. `memory`:
    those that need at most so many GB. `pattern`: part of the name, in any case. Raises
    InputError for an unknown hardware.
    """
    if hardware is not None and hardware not in index.profiles:
        raise InputError(
            f"there is no hardware profile {hardware!r}",
            hint=did_you_mean(hardware, index.profiles),
        )
    found = {}
    for name, entry in index.entries.items():
        if pattern.lower() not in name.lower() or task not in (None, *entry["tasks"]):
            continue
        fitting = _fitting(index, entry, hardware, nodes, strategy, memory)
        if fitting:
            found[name] = entry | {"fitting": fitting}
    return found


def _fitting(
    index: Index,
    entry: Entry,
    hardware: str | None,
    nodes: int | None,
    strategy: str | None,
    memory: float | None,
) -> list[str]:
    strategies, needs = entry["strategies"], {n: v["memory"] for n, v in entry["variants"].items()}
    limit = memory
    if hardware is not None:
        place = entry["runs_on"].get(hardware)
        if place is None:
            return []
        strategies, needs = place["strategies"], place["variants"]
        if nodes is not None:
            strategies = [name for name in strategies if _spans(name, nodes)]
            room = nodes * index.profiles[hardware]["vram_gb"]
            limit = room if limit is None else min(limit, room)
            if nodes > 1 and not index.profiles[hardware]["scalable"]:
                return []
    if not strategies or (strategy is not None and strategy not in strategies):
        return []
    return [name for name, need in needs.items() if limit is None or (need or 0) <= limit]


def _spans(strategy: str, nodes: int) -> bool:
    """Single-node strategies are for one node, prefill/decode and multi-node ones for several."""
    return strategy.startswith("single_node_") == (nodes == 1)


def _is_model(name: str) -> bool:
    return Path(name).parent.parent.name == "models"


def _state(directories: Sequence[Path]) -> dict[str, list[int]]:
    """Modification time and size of everything that the index is made of."""
    state: dict[str, list[int]] = {}
    for directory in directories:
        places = [directory / "strategies", directory / "kv_store"]
        with contextlib.suppress(OSError):
            places += [Path(item.path) for item in os.scandir(directory / "models")]
        taxonomy = directory / "taxonomy.yaml"
        with contextlib.suppress(OSError):
            state[str(taxonomy)] = _stamp(taxonomy.stat())
        for place in places:
            with contextlib.suppress(OSError):
                for item in os.scandir(place):
                    if item.name.endswith((".yaml", ".yml", ".json", ".md")):
                        state[item.path] = _stamp(item.stat())
    return state


def _stamp(status: os.stat_result) -> list[int]:
    return [status.st_mtime_ns, status.st_size]


def _build(
    directories: Sequence[Path],
    models: Mapping[str, list[int]],
    old: Mapping[str, Any],
    shared: Mapping[str, list[int]],
) -> dict[str, Any]:
    from orchestrator.recipes.catalog import Catalog
    from orchestrator.recipes.recipe_file import read_recipe, recipe_files

    catalog = Catalog(tuple(directories))
    names = {str(path): name for place in directories for name, path in recipe_files(place).items()}
    recipes: dict[str, Any] = {}
    for file, stamp in models.items():
        if file in old and old[file][0] == stamp:
            recipes[file] = old[file]
            continue
        try:
            found = read_recipe(Path(file), names.get(file))
        except OrcError as error:
            recipes[file] = [stamp, None, None, str(error)]
        else:
            recipes[file] = [stamp, names.get(file), _entry(found, catalog), None]
    files = list(catalog.files().values())
    return {
        "form": _FORM,
        "shared": shared,
        "recipes": recipes,
        "order": [str(path) for path in files],
        "profiles": {
            name: {"vram_gb": item.vram_gb, "gpu_count": item.gpu_count, "scalable": item.scalable}
            for name, item in catalog.profiles.items()
        },
    }


def _entry(found: RecipeFile, catalog: Catalog) -> Entry:
    from orchestrator.recipes.recommend import offered_strategies

    recipe = found.recipe
    return {
        "title": recipe.meta.title,
        "provider": recipe.meta.provider,
        "tasks": list(recipe.meta.tasks),
        "architecture": recipe.model.architecture,
        "parameters": recipe.model.parameter_count,
        "min_vllm_version": recipe.model.min_vllm_version,
        "hardware": dict(recipe.meta.hardware),
        "strategies": offered_strategies(recipe),
        "variants": {
            name: {"precision": variant.precision, "memory": variant.vram_minimum_gb}
            for name, variant in recipe.variants.items()
        },
        "runs_on": _runs_on(found, catalog),
    }


def _runs_on(found: RecipeFile, catalog: Catalog) -> dict[str, Any]:
    from orchestrator.recipes.recommend import (
        offered_strategies,
        strategy_supported,
        usable_variants,
        variant_memory,
    )

    recipe = found.recipe
    places = {}
    for name, profile in catalog.profiles.items():
        variants = usable_variants(recipe, profile)
        if variants:
            places[name] = {
                "strategies": [
                    strategy
                    for strategy in offered_strategies(recipe)
                    if strategy_supported(recipe, strategy, profile)
                ],
                "variants": {
                    variant: variant_memory(recipe.variants[variant], profile)
                    for variant in variants
                },
            }
    return places


def _index(data: Mapping[str, Any]) -> Index:
    recipes = data["recipes"]
    ordered = [recipes[file] for file in data["order"] if file in recipes]
    entries = {name: entry for _, name, entry, _ in ordered if entry is not None}
    faults = [fault for _, _, _, fault in recipes.values() if fault]
    return Index(dict(sorted(entries.items())), data["profiles"], tuple(faults))


def _cache_file(directories: Sequence[Path], cache: Path | None) -> Path:
    if cache is None:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111
        if base.startswith("~"):  # nobody's home
            base = os.devnull  # in which no directory can be made
        cache = Path(base) / "orc"
    names = "\0".join(str(directory.resolve()) for directory in directories)
    return cache / f"recipes-{hashlib.sha256(names.encode()).hexdigest()[:16]}.json"


def _read(file: Path) -> dict[str, Any]:
    try:
        data = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) and data.get("form") == _FORM else {}


def _write(file: Path, data: Mapping[str, Any]) -> None:
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", dir=file.parent, prefix=file.name, suffix=".new", delete=False
        ) as new:
            json.dump(data, new)
        Path(new.name).replace(file)
