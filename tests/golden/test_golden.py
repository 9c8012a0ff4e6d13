"""Every file in `cases/`: the plan says what was worked out by hand from vLLM's rules.

`expect` is partial: only what it names is compared. `all` holds for every node beside what the
node itself says. `flags` are all parallel and rank flags of the argument list, by short names.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Plan
from orchestrator.errors import InputError
from orchestrator.planning.launch_spec import LaunchSpec
from orchestrator.secret import Secret
from tests.golden.case import CASES, Case, numbers, ports_of

FLAGS = {
    "tp": "--tensor-parallel-size",
    "pp": "--pipeline-parallel-size",
    "dp": "--data-parallel-size",
    "pcp": "--prefill-context-parallel-size",
    "dcp": "--decode-context-parallel-size",
    "ep": "--enable-expert-parallel",
    "nnodes": "--nnodes",
    "node-rank": "--node-rank",
    "master": "--master-addr",
    "master-port": "--master-port",
    "executor": "--distributed-executor-backend",
    "headless": "--headless",
    "local": "--data-parallel-size-local",
    "start": "--data-parallel-start-rank",
    "dp-rank": "--data-parallel-rank",
    "dp-address": "--data-parallel-address",
    "rpc-port": "--data-parallel-rpc-port",
    "hybrid": "--data-parallel-hybrid-lb",
    "external": "--data-parallel-external-lb",
}
SHORT = {flag: name for name, flag in FLAGS.items()}


def flags_of(argv: tuple[str, ...]) -> dict[str, str | None]:
    """The parallel and rank flags by short name; None for a flag without a value."""
    found: dict[str, str | None] = {}
    for word, following in zip(argv, [*argv[1:], "--"], strict=True):
        if word in SHORT:
            assert SHORT[word] not in found, f"{word} stands there twice"
            found[SHORT[word]] = None if following.startswith("--") else following
    return found


def ranks_of(spec: LaunchSpec) -> dict[str, list[Any]]:
    names = ("world", "dp", "pp", "tp", "pcp", "ep", "layers")
    return {name: [getattr(rank, name) for rank in spec.ranks] for name in names}


def files_of(spec: LaunchSpec) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for content in spec.container.files.values():
        merged |= json.loads(content)
    return merged


def text(value: str | Secret | None) -> str | None:
    return "<secret>" if isinstance(value, Secret) else value


def picked(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Of `found` only what `wanted` names; what is not there is None."""
    return {name: found.get(name) for name in wanted}


def _flags(spec: LaunchSpec, wanted: Mapping[str, Any]) -> tuple[Any, Any]:
    return flags_of(spec.argv), {k: None if v is None else str(v) for k, v in wanted.items()}


def _ranks(spec: LaunchSpec, wanted: Mapping[str, Any]) -> tuple[Any, Any]:
    expected = {
        name: [tuple(value)] * len(spec.ranks) if name == "layers" else numbers(value)
        for name, value in wanted.items()
    }
    return picked(ranks_of(spec), wanted), expected


def _env(spec: LaunchSpec, wanted: Mapping[str, Any]) -> tuple[Any, Any]:
    return {name: text(spec.env.get(name)) for name in wanted}, wanted


def _command(spec: LaunchSpec, wanted: list[str]) -> tuple[Any, Any]:
    shown = shlex.join(spec.command)
    return [words for words in wanted if words not in shown], []


COMPARE: dict[str, Callable[[LaunchSpec, Any], tuple[Any, Any]]] = {
    "host": lambda spec, wanted: (spec.host, wanted),
    "replica": lambda spec, wanted: (spec.replica, wanted),
    "rank": lambda spec, wanted: (spec.rank, wanted),
    "role": lambda spec, wanted: (spec.role, wanted),
    "name": lambda spec, wanted: (spec.name, wanted),
    "address": lambda spec, wanted: (spec.address, wanted),
    "image": lambda spec, wanted: (spec.image, wanted),
    "gpus": lambda spec, wanted: (list(spec.gpus), numbers(wanted)),
    "ports": lambda spec, wanted: (dict(spec.ports), wanted),
    "argv": lambda spec, wanted: (list(spec.argv), shlex.split(wanted)),
    "file": lambda spec, wanted: (picked(files_of(spec), wanted), wanted),
    "env": _env,
    "health": lambda spec, wanted: (picked(spec.health.to_dict(), wanted), wanted),
    "flags": _flags,
    "ranks": _ranks,
    "command": _command,
}


def compare_spec(spec: LaunchSpec, wanted: Mapping[str, Any]) -> None:
    for key, value in wanted.items():
        found, expected = COMPARE[key](spec, value)
        assert found == expected, f"{spec.name} on {spec.host}: {key}"


def merged(shared: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """What all nodes share and what one says of itself; mappings are laid together."""
    both = {**shared, **own}
    for key in shared.keys() & own.keys():
        if isinstance(own[key], dict):
            both[key] = {**shared[key], **own[key]}
    return both


def compare(made: Plan, expect: dict[str, Any]) -> None:
    given = dict(expect)
    shared, nodes = given.pop("all", {}), given.pop("nodes")
    assert len(made.nodes) == len(nodes), [f"{n.host} {n.role}" for n in made.nodes]
    for spec, own in zip(made.nodes, nodes, strict=True):
        compare_spec(spec, merged(shared, own))
    router, services = given.pop("router", None), given.pop("services", [])
    assert (made.router is None) == (router is None), made.router and made.router.argv
    if made.router:
        compare_spec(made.router, router)
    assert [s.role for s in made.services] == [s["role"] for s in services]
    for spec, own in zip(made.services, services, strict=True):
        compare_spec(spec, own)
    assert [endpoint.url for endpoint in made.endpoints] == given.pop("endpoints")
    if order := given.pop("start_order", None):
        assert made.to_dict()["start_order"] == order
    assert list(made.layout.unused) == given.pop("unused", [])
    missing = [note for note in given.pop("notes", []) if note not in "\n".join(made.notes)]
    assert not missing, made.notes
    assert not given, f"unknown keys {set(given)}"


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_golden(path: Path, tmp_path: Path) -> None:
    case = Case.read(path)
    refused = case.content.get("refused")
    if refused:
        with pytest.raises(InputError) as caught:
            case.plan(tmp_path)
        missing = [words for words in refused if words not in str(caught.value)]
        assert not missing, str(caught.value)
        return
    made = case.plan(tmp_path)
    compare(made, case.content["expect"])
    used = ports_of(made)
    assert len(used) == len(set(used)), "a port is given twice on a host"


def test_there_are_enough_cases_and_refusals() -> None:
    cases = [Case.read(path).content for path in CASES]
    refusals = [case for case in cases if "refused" in case]
    assert len(refusals) >= 20
    assert len(cases) - len(refusals) >= 60
    assert all(case["about"].strip() for case in cases)
