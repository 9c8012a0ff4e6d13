"""Adding a recipe file to a catalog of the user's own."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from orchestrator.errors import ErrorGroup, InputError
from orchestrator.recipes.catalog import Catalog
from orchestrator.recipes.recipe_file import SUFFIXES, RecipeFile, read_recipe
from orchestrator.recipes.validate import validate_file

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def add_recipe(
    file: Path,
    directory: Path,
    others: Sequence[Path] = (),
    *,
    name: str | None = None,
    replace: bool = False,
) -> tuple[str, Path]:
    """Copy a recipe into the catalog `directory`, which is made if need be.

    The recipe is validated first, against this catalog, `others` and the packaged one. Its name
    is `name`, else what the file says of itself. Returns the name and the new file. Raises
    ErrorGroup with every fault, and InputError for a name that is taken unless `replace`.
    """
    around = [path for path in (directory, *others) if path.is_dir() and any(path.iterdir())]
    wrong = validate_file(file, Catalog.load(around))
    if wrong:
        raise ErrorGroup(wrong)
    found = read_recipe(file)
    name = name or _own_name(found)
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} is not the name of a recipe", where=str(file), hint="give --name org/name"
        )
    place = directory / "models" / name
    taken = [path for suffix in SUFFIXES if (path := place.with_name(place.name + suffix)).exists()]
    if taken and not replace:
        raise InputError(
            f"there is a recipe {name} already", where=str(taken[0]), hint="--replace overwrites it"
        )
    target = place.with_name(place.name + file.suffix)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".new-", delete=False) as new:
            new.write(file.read_bytes())
        shutil.copymode(file, new.name)
        Path(new.name).replace(target)
        for path in taken:
            if path != target:
                path.unlink()
    except OSError as error:
        raise InputError(f"cannot be written: {error}", where=str(target)) from None
    return name, target


def _own_name(found: RecipeFile) -> str:
    """The name by the file's place or content, else the model's."""
    return found.name if _NAME.fullmatch(found.name) else found.recipe.model.model_id
