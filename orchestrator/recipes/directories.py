"""Which directories make up a catalog: the user's in their order, and the packaged one last."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from orchestrator.documents import expand_user
from orchestrator.errors import InputError
from orchestrator.packaged import packaged_directory

_PARTS = ("models", "strategies", "kv_store", "taxonomy.yaml")


def catalog_directories(
    directories: Path | str | Sequence[Path | str] | None,
) -> tuple[Path, ...]:
    """The directories to search, the first wins. None: the packaged catalog alone.

    Raises InputError for a directory that does not exist or holds no catalog.
    """
    if directories is None:
        directories = []
    elif isinstance(directories, Path | str):
        directories = [directories]
    paths = [expand_user(directory) for directory in directories]
    for path in paths:
        if not path.is_dir():
            raise InputError(
                "no such directory", where=str(path), hint="a catalog is a directory of recipes"
            )
        if not any((path / part).exists() for part in _PARTS):
            raise InputError(
                "not a catalog: it has no models/, strategies/, kv_store/ or taxonomy.yaml",
                where=str(path),
                hint="recipes stand in models/<org>/<repo>.yaml",
            )
    packaged = packaged_directory("recipes")
    if packaged.resolve() not in [path.resolve() for path in paths]:
        paths.append(packaged)
    return tuple(paths)
