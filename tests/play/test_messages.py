"""What a failed pull or start says, out of what docker says."""

from __future__ import annotations

import re

import pytest

from orchestrator.inventory.load import implicit_localhost
from orchestrator.play.actions.pull_image import pull_failure
from orchestrator.play.actions.start import start_failure
from orchestrator.transport.connection import CommandResult
from orchestrator.transport.local import LocalConnection

HERE = LocalConnection(implicit_localhost())


def test_a_full_disk_is_named_with_its_free_bytes() -> None:
    said = "write /var/lib/docker/tmp/GetImageBlob1: no space left on device"
    text = str(pull_failure(HERE, "vllm/vllm-openai:v1", said))
    assert text.startswith("localhost: the disk is full while pulling vllm/vllm-openai:v1 (")
    assert re.search(r"\(\d+ bytes are free where docker keeps its images\)", text)
    assert said in text and "docker system prune" in text


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        (
            "Error response from daemon: manifest for 127.0.0.1:5055/base:nope not found: "
            "manifest unknown: manifest unknown",
            "correct --image",
        ),
        (
            'Error response from daemon: Get "http://127.0.0.1:5999/v2/": dial tcp '
            "127.0.0.1:5999: connect: connection refused",
            "cannot reach the registry",
        ),
        (
            "Error response from daemon: pull access denied for mine, repository does not exist "
            "or may require 'docker login': denied",
            "docker login",
        ),
    ],
)
def test_a_pull_that_the_registry_refuses_says_what_to_do(said: str, hint: str) -> None:
    text = str(pull_failure(HERE, "i:1", said))
    assert said in text and hint in text


def test_a_container_that_did_not_start_is_explained() -> None:
    said = (
        'docker: Error response from daemon: could not select device driver "" with '
        "capabilities: [[gpu]].\n\nRun 'docker run --help' for more information\n"
    )
    text = start_failure("orc-kimi-r0-n0", CommandResult(125, "", said))
    first, cause, mend = text.splitlines()
    assert first == (
        "orc-kimi-r0-n0 did not start: Error response from daemon: could not select device driver "
        '"" with capabilities: [[gpu]].'
    )
    assert "cannot hand GPUs" in cause and "NVIDIA Container Toolkit" in mend


def test_a_start_without_any_word_still_has_its_status() -> None:
    text = start_failure("c", CommandResult(73, "", ""))
    assert text == "c did not start: status 73"
