"""Which features of a recipe are on, and in which mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.errors import InputError, name_hint
from orchestrator.recipes.keyed import for_hardware
from orchestrator.recipes.resolved import HardwareProfile
from orchestrator.recipes.schema import Feature, Recipe

# Skipping the vision encoder and running it data-parallel exclude each other in every recipe
# that has both (the site's builder turns one off with the other).
_EXCLUDES = {"text_only": "encoder_parallel", "encoder_parallel": "text_only"}


@dataclass(frozen=True, slots=True)
class ChosenFeature:
    name: str
    mode: str | None = None

    def __str__(self) -> str:
        return f"{self.name}={self.mode}" if self.mode else self.name


def default_features(recipe: Recipe, variant: str, hardware: HardwareProfile) -> list[str]:
    """The features that are on when nothing is said.

    All but the opt-in ones, in general and on this hardware; a variant's `default_modes` turn
    a feature on even so, since such a checkpoint is made for it.
    """
    opt_in = {
        *recipe.opt_in_features,
        *recipe.hardware_opt_in_features.get(hardware.name, ()),
    }
    made_for = recipe.variants[variant].default_modes
    return [name for name in recipe.features if name not in opt_in or name in made_for]


def allowed_modes(feature: Feature, variant: str, hardware: HardwareProfile) -> list[str]:
    """The modes that run with this variant on this hardware."""
    return [
        name
        for name, mode in feature.modes.items()
        if (not mode.variants or variant in mode.variants)
        and "unsupported"
        not in (mode.hardware.get(hardware.generation), mode.hardware.get(hardware.name))
    ]


def choose_features(
    where: str,
    recipe: Recipe,
    variant: str,
    hardware: HardwareProfile,
    strategy: str,
    wanted: Sequence[str] | None,
) -> tuple[ChosenFeature, ...]:
    """The features that are on, each with its mode where it has modes, in the recipe's order.

    `wanted` None: the defaults. Names alone: exactly these. `+name` and `-name`: against the
    defaults. `name=mode` picks a mode. A default that cannot be used here is left out; one that
    was asked for and cannot be used is an InputError.
    """
    on, modes, asked = _wanted(where, recipe, variant, hardware, wanted)
    excluded = _exclusion(recipe, on, asked)
    chosen = []
    for name in [name for name in recipe.features if name in on]:
        feature = recipe.features[name]
        refusal = _refusal(recipe, name, variant, hardware, strategy)
        if name in excluded:
            refusal = f"it and {excluded[name]!r} exclude each other"
        if refusal is None and feature.modes:
            mode, refusal = _mode(recipe, name, variant, hardware, modes.get(name))
            if mode:
                chosen.append(ChosenFeature(name, mode))
        elif refusal is None and name in modes:
            refusal = f"it has no modes, so not {modes[name]!r} either"
        elif refusal is None:
            chosen.append(ChosenFeature(name))
        if refusal and name in asked:
            raise InputError(f"feature {name!r} cannot be used here", where=where, why=refusal)
    return tuple(chosen)


def _wanted(
    where: str,
    recipe: Recipe,
    variant: str,
    hardware: HardwareProfile,
    wanted: Sequence[str] | None,
) -> tuple[set[str], dict[str, str], set[str]]:
    """The features on, the modes picked, and the features that were asked for by name."""
    defaults = set(default_features(recipe, variant, hardware))
    if wanted is None:
        return defaults, {}, set()
    signs = {word[:1] in "+-" for word in wanted if word}
    if signs == {True, False}:
        raise InputError(
            "features are either exactly those named, or +name and -name against the defaults",
            where=where,
            why="given: " + ", ".join(wanted),
        )
    on = defaults if signs == {True} else set()
    modes: dict[str, str] = {}
    asked: set[str] = set()
    for word in wanted:
        name, _, mode = word.lstrip("+-").partition("=")
        if name not in recipe.features:
            raise InputError(
                f"the recipe has no feature {name!r}",
                where=where,
                hint=name_hint(name, recipe.features),
            )
        if word.startswith("-"):
            if mode:
                raise InputError(
                    f"{word!r} takes a feature away, which is said without a mode", where=where
                )
            on.discard(name)
            continue
        on.add(name)
        asked.add(name)
        if mode:
            modes[name] = mode
    return on, modes, asked


def _exclusion(recipe: Recipe, on: set[str], asked: set[str]) -> dict[str, str]:
    """Features that give way to another that is on: one asked for beats a default."""
    excluded: dict[str, str] = {}
    for name in [name for name in recipe.features if name in on]:
        others = {*recipe.features[name].excludes}
        if name in _EXCLUDES:
            others.add(_EXCLUDES[name])
        for other in others & on:
            if other in excluded or name in excluded:
                continue
            loser = name if other in asked and name not in asked else other
            excluded[loser] = other if loser == name else name
    return excluded


def _refusal(
    recipe: Recipe, name: str, variant: str, hardware: HardwareProfile, strategy: str
) -> str | None:
    feature = recipe.features[name]
    if feature.strategies and strategy not in feature.strategies:
        return f"it works with {', '.join(feature.strategies)} only, not {strategy}"
    if for_hardware(feature.hardware, hardware) == "unsupported":
        return f"the recipe marks it as unsupported on {hardware.name}"
    if feature.modes and not allowed_modes(feature, variant, hardware):
        return f"none of its modes runs with variant {variant!r} on {hardware.name}"
    return None


def _mode(
    recipe: Recipe, name: str, variant: str, hardware: HardwareProfile, picked: str | None
) -> tuple[str | None, str | None]:
    """The mode of a feature, or why the one that was picked cannot be."""
    feature = recipe.features[name]
    allowed = allowed_modes(feature, variant, hardware)
    if picked is not None:
        if picked in allowed:
            return picked, None
        if picked not in feature.modes:
            return None, f"it has no mode {picked!r}: there are {', '.join(feature.modes)}"
        return None, (
            f"mode {picked!r} does not run with variant {variant!r} on {hardware.name};"
            f" {', '.join(allowed)} does"
        )
    for candidate in (recipe.variants[variant].default_modes.get(name), feature.default_mode):
        if candidate in allowed:
            return candidate, None
    return allowed[0], None
