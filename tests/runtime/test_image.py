"""Pull progress, digests, and which one all hosts run."""

from __future__ import annotations

import pytest

from orchestrator.runtime import image
from tests.runtime import recorded


def test_progress_of_a_pull_goes_from_layers_to_the_status() -> None:
    progress = image.PullProgress()
    shown = [str(progress) for line in recorded.PULL.splitlines() if progress.feed(line)]
    assert shown == [
        "0 of 1 layers",
        "0 of 1 layers, 1 more downloaded",
        "1 of 1 layers",
        "Downloaded newer image for 127.0.0.1:5055/base:1",
    ]
    assert progress.digest and progress.digest.startswith("sha256:b27e793c")


def test_a_pull_of_what_is_there_says_so() -> None:
    progress = image.PullProgress()
    for line in recorded.PULL_AGAIN.splitlines():
        progress.feed(line)
    assert str(progress) == "Image is up to date for 127.0.0.1:5055/base:1"


def test_an_image_is_read_with_its_digests() -> None:
    held = image.parse_image(recorded.IMAGE)
    assert held.id.startswith("sha256:4b123ad8")
    reference = image.digest_reference(held, "127.0.0.1:5055/base:1")
    assert reference and reference.startswith("127.0.0.1:5055/base@sha256:b27e")


def test_an_image_from_no_registry_has_no_digest() -> None:
    held = image.parse_image(recorded.IMAGE_WITHOUT_REGISTRY)
    assert image.digest_reference(held, "base:1") is None


@pytest.mark.parametrize(
    ("reference", "repository"),
    [
        ("vllm/vllm-openai:v0.33.0", "vllm/vllm-openai"),
        ("docker.io/vllm/vllm-openai:v0.33.0", "vllm/vllm-openai"),
        ("docker.io/library/debian", "debian"),
        ("registry:5000/vllm", "registry:5000/vllm"),
        ("registry:5000/a/vllm:1@sha256:00", "registry:5000/a/vllm"),
    ],
)
def test_the_repository_of_a_reference(reference: str, repository: str) -> None:
    assert image.repository(reference) == repository


def test_the_digest_of_the_wanted_repository_is_preferred() -> None:
    held = image.LocalImage("sha256:1", ("mirror/vllm@sha256:a", "vllm/vllm-openai@sha256:b"))
    assert image.digest_reference(held, "vllm/vllm-openai:v1") == "vllm/vllm-openai@sha256:b"
    assert image.digest_reference(held, "other:v1") == "mirror/vllm@sha256:a"


def test_the_digest_that_most_hosts_hold_is_the_one() -> None:
    assert image.common_digest({"a": "r@1", "b": "r@2", "c": "r@2"}) == "r@2"
    assert image.common_digest({"a": "r@1", "b": "r@2"}) == "r@1"


def test_free_bytes_of_df() -> None:
    text = (
        "Filesystem 1024-blocks     Used Available Capacity Mounted on\n"
        "/dev/vda     264212480 27414528  78977024      26% /\n"
    )
    assert image.parse_disk_free(text) == 78977024 * 1024
    assert image.parse_disk_free("") is None
