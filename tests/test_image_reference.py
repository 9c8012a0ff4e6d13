"""Which names docker takes for an image; docker's own client is the oracle."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from orchestrator import Catalog, plan
from orchestrator.deployment import Deployment
from orchestrator.errors import PlanError
from orchestrator.image_reference import checked_image
from tests.planning.builders import inventory

DIGEST = "sha256:" + "0a" * 32
GOOD = [
    "vllm",
    "vllm/vllm-openai:v0.33.0",
    "vllm/vllm-openai:v0.33.0-Dev_1",
    f"vllm/vllm-openai@{DIGEST}",
    f"quay.io/ascend/vllm-ascend:v0.23.0@{DIGEST}",
    f"vllm@sha512:{'0a' * 64}",
    "localhost/vllm",
    "registry:5000/team/vllm:1",
    "127.0.0.1:5000/vllm",
    "[2001:db8::1]:5000/vllm:1",
    "Registry.Example.COM/vllm",
    "UPPER/vllm",  # docker takes it for a host
    "a__b/c--d.e_f",
    f"{'0a' * 31}/vllm",
    "vllm:" + "t" * 128,
    "a" * 247,
    "host:5000/" + "a" * 255,
]
BAD = [
    ("UPPER:x", "'UPPER' cannot stand in a repository"),
    ("vllm/vLLM", "'vLLM' cannot stand in a repository"),
    ("", "'' cannot stand in a repository"),
    ("vllm//openai", "'' cannot stand in a repository"),
    ("/vllm", "'' cannot stand in a repository"),
    ("vllm/", "'' cannot stand in a repository"),
    ("-vllm", "'-vllm' cannot"),
    ("vllm_", "'vllm_' cannot"),
    ("a..b", "'a..b' cannot"),
    ("a___b", "'a___b' cannot"),
    ("a b", "'a b' cannot"),
    ("vllm\n", "cannot stand"),
    ("vllm:", "'' is no tag"),
    ("vllm:-1", "'-1' is no tag"),
    ("vllm:a:b", "'a:b' is no tag"),
    ("vllm:ä", "'ä' is no tag"),
    ("vllm:" + "t" * 129, "is no tag"),
    ("vllm@", "'' is no digest"),
    ("vllm@sha256:0a", "is no digest"),
    (f"vllm@{DIGEST.upper()}", "is no digest"),
    (f"vllm@sha256:{'0A' * 32}", "is no digest"),
    (f"vllm@{DIGEST}:tag", "is no digest"),
    ("reg.:5000/vllm", "'reg.:5000' is no registry"),
    ("registry:port/vllm", "'registry:port' is no registry"),
    ("https://registry/vllm", "'https:' is no registry"),
    ("registry:5000", None),  # a tag
    ("a" * 248, "longer than 255"),
    ("a/" + "a" * 254, "longer than 255"),
    ("0a" * 32, "the ID of an image"),
]


@pytest.mark.parametrize("reference", GOOD)
def test_what_docker_takes_is_taken(reference: str) -> None:
    assert checked_image(reference) == reference


@pytest.mark.parametrize(("reference", "message"), [case for case in BAD if case[1]])
def test_what_docker_refuses_is_refused_with_the_part_that_is_wrong(
    reference: str, message: str
) -> None:
    with pytest.raises(ValueError) as caught:
        checked_image(reference)
    assert message in str(caught.value)


@pytest.mark.skipif(shutil.which("docker") is None, reason="asks docker's client")
@pytest.mark.parametrize("reference", [*GOOD, *(text for text, _ in BAD)])
def test_dockers_own_client_judges_alike(reference: str, tmp_path: Path) -> None:
    """It judges before it asks a daemon, and here none is there to be asked."""
    nobody = os.environ | {"DOCKER_HOST": f"unix://{tmp_path}/none"}
    said = subprocess.run(
        ["docker", "pull", "--", reference], env=nobody, capture_output=True, text=True, check=False
    )
    try:
        checked_image(reference)
    except ValueError:
        assert "cannot connect" not in said.stderr.lower()
    else:
        assert "cannot connect" in said.stderr.lower()


@pytest.mark.parametrize("selection", [{"image": "UPPER:x"}, {"router": {"image": "UPPER:x"}}])
def test_a_deployment_is_refused_with_the_field(selection: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=r"image\n.*'UPPER' cannot stand in a repository"):
        Deployment.model_validate({"recipe": "a/b", **selection})


def test_a_recipes_own_image_is_refused_when_it_is_planned(tmp_path: Path) -> None:
    models = tmp_path / "models" / "own"
    models.mkdir(parents=True)
    (models / "one.yaml").write_text(
        "meta: {title: One}\nmodel: {model_id: own/one, docker_image: 'Own/Image:1'}\n"
        "compatible_strategies: [single_node_tp]\n"
        "variants: {default: {precision: bf16, vram_minimum_gb: 1}}\n"
    )
    deployment = Deployment(recipe="own/one", strategy="single_node_tp")
    with pytest.raises(PlanError, match=r"'Own/Image:1'") as caught:
        plan(inventory(tmp_path), Catalog.load(tmp_path), deployment)
    assert "docker_image" in (caught.value.hint or "")
