"""Finds and reads what `-i` names: files, directories, `group_vars/` and `host_vars/`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from orchestrator import documents
from orchestrator.documents import Document, parse_document
from orchestrator.errors import InputError
from orchestrator.inventory.group_tree import GroupTree
from orchestrator.inventory.ini_source import read_ini
from orchestrator.inventory.layers import Layer, document_layer
from orchestrator.inventory.yaml_source import host_names, read_yaml

VAULT_HEADER = "$ANSIBLE_VAULT;"

Decrypt = Callable[[str, str], str]  # (vault text, where it stands) -> what it says

_YAML_SUFFIXES = (".yml", ".yaml", ".json")
# What Ansible passes over in a directory of inventories.
_IGNORED = re.compile(
    r"^\.|^(group_vars|host_vars|vars_plugins)$"
    r"|(~|\.(pyc|pyo|swp|bak|rpm|md|txt|rst|orig|cfg|retry))$"
)
_STARTS_AS_YAML = re.compile(r"""(---|\{|%YAML|[\w.'"-]+\s*:(\s|$))""")


def read_sources(paths: Iterable[Path], tree: GroupTree, decrypt: Decrypt) -> None:
    """Read every inventory in turn, then the variable files beside each; later ones win.

    Raises InputError for a path that is missing, empty or no inventory.
    """
    paths = list(paths)
    for path in paths:
        _read_source(path, tree, decrypt)
    tree.close()


def variable_directories(paths: Iterable[Path]) -> list[Path]:
    """The directories beside which `group_vars/` and `host_vars/` may be, each once."""
    found: dict[Path, None] = {}
    for path in paths:
        if not _is_host_list(path):
            found[path if path.is_dir() else path.parent] = None
    return list(found)


def _is_host_list(path: Path) -> bool:
    return "," in str(path) and not path.exists()


def _read_source(path: Path, tree: GroupTree, decrypt: Decrypt) -> None:
    if _is_host_list(path):
        return _read_host_list(str(path), tree)
    if not path.is_dir():
        return _read_file(path, tree, decrypt)
    entries = [entry for entry in _entries(path) if not _IGNORED.search(entry.name)]
    if not entries:
        raise InputError("the directory holds no inventory file", where=str(path))
    for entry in entries:
        _read_source(entry, tree, decrypt)
    return None


def _entries(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(directory)) from None


def _read_host_list(text: str, tree: GroupTree) -> None:
    for pattern in filter(None, (part.strip() for part in text.split(","))):
        try:
            names, port = host_names(pattern)
        except ValueError as error:
            raise InputError(str(error), where=f"-i {text}") from None
        for name in names:
            tree.add_host(name, "ungrouped")
            if port is not None:
                layer = Layer({"ansible_port": port}, lambda _: f"-i {text}", Path(text))
                tree.host_layers[name].append(layer)


def _read_file(path: Path, tree: GroupTree, decrypt: Decrypt) -> None:
    text, encrypted = read_text(path, decrypt)
    if not text.strip():
        raise InputError(
            "the inventory is empty", where=str(path), hint="write `all:` and below it `hosts:`"
        )
    if text.startswith("#!"):
        raise InputError(
            "this is an inventory script, and scripts are not run here",
            where=f"{path}:1",
            hint=f"save what it finds: ansible-inventory -i {path} --list -y > hosts.yml",
        )
    if _is_yaml(path, text):
        document = _parse(text, path, encrypted)
        if document.data is None:
            raise InputError("the inventory holds nothing but comments", where=str(path))
        read_yaml(document, tree)
    else:
        read_ini(text, path, tree)
    if encrypted:
        _mark_encrypted(path, tree)


def _mark_encrypted(path: Path, tree: GroupTree) -> None:
    for layers in (*(g.layers for g in tree.groups.values()), *tree.host_layers.values()):
        layers[:] = [
            replace(layer, encrypted=True) if layer.file == path else layer for layer in layers
        ]


def _parse(text: str, path: Path, encrypted: bool) -> Document:
    try:
        return parse_document(text, str(path))
    except InputError as error:
        if encrypted:  # the message holds the line itself
            raise InputError(
                "what Ansible Vault encrypted here is no YAML", where=error.where
            ) from None
        raise


def _is_yaml(path: Path, text: str) -> bool:
    if path.suffix in _YAML_SUFFIXES:
        return True
    if path.suffix in (".ini", ".cfg"):
        return False
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith(("#", ";")):
            return _STARTS_AS_YAML.match(line) is not None
    return False


def read_text(path: Path, decrypt: Decrypt) -> tuple[str, bool]:
    """The text of a file, decrypted if Ansible Vault encrypted the whole, and whether it did.

    Raises InputError when it is missing, is no file, no UTF-8, or bigger than any inventory.
    """
    try:
        text = documents.read_text(path)
    except InputError as error:
        if error.what == "no such file":
            raise InputError(
                "no such inventory", where=str(path), hint="give the file or directory with -i"
            ) from None
        raise
    if text.startswith(VAULT_HEADER):
        return decrypt(text, str(path)), True
    return text, False


def variable_layers(
    directory: Path, kind: str, names: Iterable[str], decrypt: Decrypt
) -> dict[str, list[Layer]]:
    """The layers that `directory`/`kind` (`group_vars`, `host_vars`) holds for each name."""
    base = directory / kind
    try:
        present = {entry.name for entry in os.scandir(base)}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(base)) from None
    layers: dict[str, list[Layer]] = {}
    for name in names:
        for suffix in ("", *_YAML_SUFFIXES):
            if name + suffix in present:
                files = _files(base / (name + suffix))
                layers[name] = [_variable_file(file, decrypt) for file in files]
                break
    return layers


def _files(path: Path) -> list[Path]:
    """`path`, or the variable files below it in order of name."""
    if not path.is_dir():
        return [path]
    found: list[Path] = []
    for entry in _entries(path):
        if entry.name.startswith(".") or entry.name.endswith("~"):
            continue
        if entry.is_dir() or entry.suffix in ("", *_YAML_SUFFIXES):
            found += _files(entry)
    return found


def _variable_file(path: Path, decrypt: Decrypt) -> Layer:
    text, encrypted = read_text(path, decrypt)
    document = _parse(text, path, encrypted)
    values: Mapping[str, object] = document.data if document.data is not None else {}
    return document_layer(document, (), values, encrypted=encrypted)
