"""The limits and the size of the KV cache against vLLM's own code."""

from __future__ import annotations

import itertools
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import PlanError
from orchestrator.recipes.resolved import Argument, CommandParts, ModelShape
from orchestrator.topology.kv_cache import KvCache
from orchestrator.topology.layout import Sizes
from orchestrator.topology.limits import check_shape
from orchestrator.topology.prefill_context import check_prefill_context
from orchestrator.topology.weights import GIB
from tests.fleet.debian import install_debian_packages
from tests.fleet.environment import build_environment

pytestmark = [pytest.mark.fleet, pytest.mark.vllm]

CASES = [
    {
        "heads": heads,
        "kv_heads": kv_heads,
        "latent": latent,
        "tensor": tensor,
        "decode_context": decode,
        "prefill_context": prefill,
    }
    for heads, kv_heads, latent, tensor, decode, prefill in itertools.product(
        (24, 40, 48, 64, 128),
        (2, 4, 8),
        (False, True),
        (1, 2, 3, 4, 6, 8, 12, 16, 32, 64),
        (1, 2, 4, 6, 8),
        (1, 2),
    )
]


BESIDE = [
    dict(zip(("latent", "sparse", "multimodal", "lora", "method", "mode"), beside, strict=True))
    | {"prefill_context": prefill, "decode_context": decode, "backend": backend}
    for *beside, prefill, decode, backend in itertools.product(
        (True, False),
        (True, False),
        (True, False),
        (True, False),
        (None, "mtp", "dspark", "eagle3", "ngram"),
        ("NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"),
        (1, 2),
        (1, 2),
        ("ag_rs", "a2a"),
    )
]


@pytest.fixture(scope="module")
def said_by_vllm(fleet_machine: None) -> dict[str, Any]:
    install_debian_packages()
    python = build_environment() / "bin" / "python"
    script = Path(__file__).with_name("vllm_limits.py")
    done = subprocess.run(
        [python, str(script)],
        input=json.dumps({"sizes": CASES, "prefill_context": BESIDE}),
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def ours(case: dict[str, Any]) -> str | None:
    latent = case["latent"]
    shape = ModelShape(
        attention_heads=case["heads"],
        kv_heads=1 if latent else case["kv_heads"],
        kv_latent=576 if latent else None,
    )
    sizes = Sizes(
        tensor=case["tensor"],
        decode_context=case["decode_context"],
        prefill_context=case["prefill_context"],
    )
    try:
        check_shape(shape, sizes, "org/model")
    except PlanError as error:
        return str(error)
    return None


def test_what_vllm_refuses_is_refused_and_nothing_else(said_by_vllm: dict[str, Any]) -> None:
    verdicts = said_by_vllm["sizes"]
    differing = [
        (case, ours(case), theirs)
        for case, theirs in zip(CASES, verdicts, strict=True)
        if (ours(case) is None) != (theirs is None)
    ]
    assert differing == []
    assert 100 < sum(theirs is None for theirs in verdicts) < len(CASES) - 100


def beside_prefill_context(case: dict[str, Any]) -> str | None:
    shape = ModelShape(
        kv_heads=1 if case["latent"] else 8,
        kv_latent=576 if case["latent"] else None,
        sparse_attention=case["sparse"],
        multimodal=case["multimodal"] or None,
    )
    given: list[tuple[str, ...]] = [
        ("--compilation-config", json.dumps({"cudagraph_mode": case["mode"]})),
        ("--dcp-comm-backend", case["backend"]),
    ]
    if case["method"]:
        given.append(("--speculative-config", json.dumps({"method": case["method"]})))
    if case["lora"]:
        given.append(("--enable-lora",))
    parts = CommandParts(tuple(Argument(words[0], words, "user") for words in given))
    sizes = Sizes(
        tensor=2, prefill_context=case["prefill_context"], decode_context=case["decode_context"]
    )
    try:
        check_prefill_context(parts, sizes, shape, "org/model")
    except PlanError as error:
        return str(error)
    return None


def test_what_goes_with_prefill_context_is_what_every_worker_checks(
    said_by_vllm: dict[str, Any],
) -> None:
    verdicts = said_by_vllm["prefill_context"]
    differing = [
        (case, beside_prefill_context(case), theirs)
        for case, theirs in zip(BESIDE, verdicts, strict=True)
        if (beside_prefill_context(case) is None) != (theirs is None)
    ]
    assert differing == []
    assert 100 < sum(theirs is None for theirs in verdicts) < len(BESIDE) - 100


def test_a_token_of_kv_cache_takes_what_vllms_own_specs_say(said_by_vllm: dict[str, Any]) -> None:
    grouped = KvCache(ModelShape(layers=1, kv_heads=8, head_dim=128), 65536, 2)
    latent = KvCache(ModelShape(layers=1, kv_heads=1, kv_latent=576), 65536, 2)
    found = [cache.of_gpu(Sizes(tensor=8), 1) for cache in (grouped, latent)]
    assert [(gib or 0) * GIB / 65536 for gib in found] == said_by_vllm["bytes"]
