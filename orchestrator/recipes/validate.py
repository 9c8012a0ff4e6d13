"""Checks of a recipe against the catalog around it: the names it refers to must exist.

The schema itself is checked on reading; this is what a schema cannot see.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.documents import Key, read_document
from orchestrator.errors import InputError, OrcError, did_you_mean
from orchestrator.recipes.catalog import Catalog
from orchestrator.recipes.part import Part
from orchestrator.recipes.recipe_file import SUFFIXES, RecipeFile, parse_recipe, recipe_files
from orchestrator.recipes.schema import Recipe
from orchestrator.recipes.taxonomy import KvStoreFile, StrategyFile, Taxonomy
from orchestrator.recipes.valid_part import valid_part

# What stands in for a faulty part that a recipe cannot be without; it refers to nothing.
_NEEDED = {"meta": {"title": ""}, "model": {"model_id": ""}, "variants": {"default": {}}}
Reference = tuple[tuple[Key, ...], str]  # where a name stands, and the name


@dataclass(frozen=True, slots=True)
class _Vocabulary:
    """The names that a recipe may refer to, by kind."""

    strategies: set[str]
    profiles: set[str]
    hardware_keys: set[str]  # profiles, generations, brands, default
    architectures: set[str]
    kv_offload: set[str]
    tasks: set[str]


def validate_path(path: Path, catalog: Catalog) -> tuple[int, list[OrcError]]:
    """The number of files checked, and every fault in them: of a file, or of a directory.

    Raises InputError when there is nothing to check.
    """
    if not path.exists():
        raise InputError("no such file or directory", where=str(path))
    if not path.is_dir():
        return 1, validate_file(path, catalog)
    faults: list[OrcError] = []
    count = 0
    in_layout = (path / "models").is_dir()
    files = recipe_files(path).values() if in_layout else _loose_files(path)
    for file in files:
        count += 1
        faults += validate_file(file, catalog)
    parts: dict[str, type[Part]] = {
        "taxonomy.yaml": Taxonomy,
        "strategies/*.yaml": StrategyFile,
        "kv_store/*.yaml": KvStoreFile,
    }
    for pattern, model in parts.items():
        for file in sorted(path.glob(pattern)):
            count += 1
            try:
                document = read_document(file)
            except OrcError as error:
                faults.append(error)
            else:
                faults += document.faults(model, document.data)
    if not count:
        raise InputError(
            "there is no recipe here", where=str(path), hint="recipes are .yaml, .json or .md files"
        )
    return count, faults


def _loose_files(path: Path) -> list[Path]:
    return sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file())


def validate_file(path: Path, catalog: Catalog) -> list[OrcError]:
    """Every fault of one recipe file: of its schema, and of the names in what the schema takes."""
    try:
        parsed = parse_recipe(path)
    except OrcError as error:
        return [error]
    wrong = parsed.document.faults(Recipe, parsed.data)
    if not wrong:
        return list(faults(parsed.checked(), catalog))
    rest = valid_part(Recipe, parsed.data, _NEEDED)
    if rest is None:
        return list(wrong)
    found = RecipeFile(parsed.name, rest, parsed.document)
    return [*wrong, *faults(found, catalog, written=parsed.data)]


def faults(found: RecipeFile, catalog: Catalog, written: Any = None) -> Iterator[InputError]:
    """Every name in the recipe that refers to nothing.

    `written` is what stands in the file, where `found` holds only the valid part of it: a feature
    or variant that is there and faulty is no unknown one.
    """
    recipe = found.recipe
    words = _vocabulary(catalog)
    checks: list[tuple[str, Iterable[Reference], Iterable[str]]] = [
        ("strategy", _strategy_names(recipe), words.strategies),
        ("hardware profile", _profile_names(recipe, words), words.profiles),
        ("hardware", _hardware_keys(recipe), words.hardware_keys),
        ("feature", _feature_names(recipe), _names(written, "features") or recipe.features),
        ("variant", _variant_names(recipe), _names(written, "variants") or recipe.variants),
        ("KV offload", _kv_names(recipe), words.kv_offload),
        ("task", [(("meta", "tasks", n), t) for n, t in enumerate(recipe.meta.tasks)], words.tasks),
    ]
    for kind, references, known in checks:
        for keys, name in references:
            if name not in known and (name or written is None):
                yield found.document.error(
                    f"{'.'.join(map(str, keys))}: there is no {kind} {name!r}",
                    keys,
                    hint=did_you_mean(name, known),
                )
    yield from _mode_faults(found)


def _names(written: Any, part: str) -> list[str]:
    section = written.get(part) if isinstance(written, Mapping) else None
    return list(section) if isinstance(section, Mapping) else []


def _vocabulary(catalog: Catalog) -> _Vocabulary:
    profiles = catalog.profiles.values()
    return _Vocabulary(
        strategies={*catalog.strategies, *catalog.kv_stores},
        profiles=set(catalog.profiles),
        hardware_keys={
            *catalog.profiles,
            *(profile.generation for profile in profiles),
            *(profile.brand.lower() for profile in profiles),
            "default",
        },
        architectures={profile.compute_arch or "" for profile in profiles},
        kv_offload={*catalog.taxonomy.kv_offload, *catalog.kv_stores},
        tasks={task.id for task in catalog.taxonomy.tasks},
    )


def _strategy_names(recipe: Recipe) -> Iterator[Reference]:
    for number, name in enumerate(recipe.compatible_strategies):
        yield ("compatible_strategies", number), name
    if recipe.default_strategy:
        yield ("default_strategy",), recipe.default_strategy
    for key in ("strategy_overrides", "strategy_hardware"):
        for name in getattr(recipe, key):
            yield (key, name), name
    for feature_name, feature in recipe.features.items():
        for number, name in enumerate(feature.strategies):
            yield ("features", feature_name, "strategies", number), name
    for preset_name, preset in recipe.presets.items():
        yield ("presets", preset_name, "strategy"), preset.strategy


def _profile_names(recipe: Recipe, words: _Vocabulary) -> Iterator[Reference]:
    if recipe.meta.default_hardware:
        yield ("meta", "default_hardware"), recipe.meta.default_hardware
    for name in recipe.meta.hardware:
        yield ("meta", "hardware", name), name
    for key in ("hardware_opt_in_features", "hardware_notes"):
        for name in getattr(recipe, key):
            yield (key, name), name
    for variant_name, variant in recipe.variants.items():
        for number, name in enumerate(variant.supported_hardware):
            if name.removeprefix("arch:") not in words.architectures or ":" not in name:
                yield ("variants", variant_name, "supported_hardware", number), name
    for preset_name, preset in recipe.presets.items():
        yield ("presets", preset_name, "hardware"), preset.hardware


def _hardware_keys(recipe: Recipe) -> Iterator[Reference]:
    """Keys of maps by profile, generation or brand: one that names nothing is silently inert."""
    for key in recipe.hardware_overrides:
        yield ("hardware_overrides", key), key
    for name, gates in recipe.strategy_hardware.items():
        yield from ((("strategy_hardware", name, key), key) for key in gates)
    for name, variant in recipe.variants.items():
        at = ("variants", name)
        yield from (((*at, "hardware_overrides", key), key) for key in variant.hardware_overrides)
        if isinstance(variant.tp, dict):
            yield from (((*at, "tp", key), key) for key in variant.tp)
    for name, override in recipe.strategy_overrides.items():
        at = ("strategy_overrides", name)
        yield from (((*at, "hardware_overrides", key), key) for key in override.hardware_overrides)
        if isinstance(override.tp, dict):
            yield from (((*at, "tp", key), key) for key in override.tp)
    for name, feature in recipe.features.items():
        at = ("features", name)
        yield from (((*at, "hardware_overrides", key), key) for key in feature.hardware_overrides)
        yield from (((*at, "hardware", key), key) for key in feature.hardware)
        for mode_name, mode in feature.modes.items():
            inner = (*at, "modes", mode_name)
            yield from (
                ((*inner, "hardware_overrides", key), key) for key in mode.hardware_overrides
            )
            yield from (((*inner, "hardware", key), key) for key in mode.hardware)


def _feature_names(recipe: Recipe) -> Iterator[Reference]:
    for number, name in enumerate(recipe.opt_in_features):
        yield ("opt_in_features", number), name
    for key, names in recipe.hardware_opt_in_features.items():
        for number, name in enumerate(names):
            yield ("hardware_opt_in_features", key, number), name
    for feature_name, feature in recipe.features.items():
        for number, name in enumerate(feature.excludes):
            yield ("features", feature_name, "excludes", number), name
    for variant_name, variant in recipe.variants.items():
        for name in variant.default_modes:
            yield ("variants", variant_name, "default_modes", name), name


def _variant_names(recipe: Recipe) -> Iterator[Reference]:
    declared = recipe.meta.default_variant
    for name in [declared] if isinstance(declared, str) else (declared or {}).values():
        yield ("meta", "default_variant"), name
    for feature_name, feature in recipe.features.items():
        for mode_name, mode in feature.modes.items():
            for number, name in enumerate(mode.variants):
                yield ("features", feature_name, "modes", mode_name, "variants", number), name
    for preset_name, preset in recipe.presets.items():
        for number, name in enumerate(preset.variants):
            yield ("presets", preset_name, "variants", number), name


def _kv_names(recipe: Recipe) -> Iterator[Reference]:
    for key in ("kv_offload_support", "kv_cache_strategy_hardware"):
        for name in getattr(recipe, key):
            yield (key, name), name


def _mode_faults(found: RecipeFile) -> Iterator[InputError]:
    """A variant's default mode must exist and be allowed for that variant."""
    recipe = found.recipe
    for variant_name, variant in recipe.variants.items():
        for feature_name, mode_name in variant.default_modes.items():
            feature = recipe.features.get(feature_name)
            if feature is None:
                continue
            keys = ("variants", variant_name, "default_modes", feature_name)
            mode = feature.modes.get(mode_name)
            if mode is None:
                yield found.document.error(
                    f"{'.'.join(keys)}: feature {feature_name!r} has no mode {mode_name!r}",
                    keys,
                    hint=did_you_mean(mode_name, feature.modes),
                )
            elif mode.variants and variant_name not in mode.variants:
                yield found.document.error(
                    f"{'.'.join(keys)}: mode {mode_name!r} is not for variant {variant_name!r}",
                    keys,
                    hint="it is for: " + ", ".join(mode.variants),
                )
