"""The stand-in for vLLM behaves as real vLLM does, wherever other tests rely on it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.e2e.conftest import TINY, Orc
from tests.e2e.deployed import START_SECONDS
from tests.fleet import Fleet

MODEL = "/models/tiny-llama"
ASKED = {"model": MODEL, "prompt": "Hello", "max_tokens": 4, "temperature": 0}


@pytest.fixture(scope="module")
def pair(fleet: Fleet, orc: Orc) -> Iterator[tuple[str, str]]:
    """The URLs of a real vLLM on the first host and of the stand-in on the second."""
    real = ("up", *TINY, "--name", "real", "--image", fleet.image, "--limit", "node01")
    fast = ("up", *TINY, "--name", "fast", "--image", fleet.fast_image, "--limit", "node02")
    for words in (real, fast):
        done = orc(*words, timeout=START_SECONDS)
        assert done.status == 0, done.text
    urls = [f"http://{fleet.host(name).addresses[0]}:8000" for name in ("node01", "node02")]
    yield urls[0], urls[1]
    for name in ("real", "fast"):
        assert orc("down", name, "--yes").status == 0


def shape(value: Any) -> Any:
    """The names in a JSON document, without what the values are."""
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [shape(inner) for inner in value[:1]]
    return None


@pytest.mark.vllm
@pytest.mark.timeout(600)
@pytest.mark.parametrize("path", ["/health", "/v1/models", "/v1/nothing", "/metrics"])
def test_what_it_answers_to_a_get_has_the_status_and_the_kind_of_the_real(
    pair: tuple[str, str], path: str
) -> None:
    real, fast = (httpx.get(url + path, timeout=30) for url in pair)
    assert (fast.status_code, fast.headers.get("content-type", "").partition(";")[0]) == (
        real.status_code,
        real.headers.get("content-type", "text/plain").partition(";")[0],
    )


@pytest.mark.vllm
def test_its_completions_have_what_readers_of_the_real_ones_read(pair: tuple[str, str]) -> None:
    real, fast = (httpx.post(f"{url}/v1/completions", json=ASKED, timeout=60) for url in pair)
    assert fast.status_code == real.status_code == 200
    assert_part_of(shape(fast.json()), shape(real.json()))
    assert fast.json()["usage"]["completion_tokens"] == real.json()["usage"]["completion_tokens"]


@pytest.mark.vllm
def test_its_streams_end_as_the_real_ones(pair: tuple[str, str]) -> None:
    asked = {**ASKED, "stream": True}
    for url in pair:
        answer = httpx.post(f"{url}/v1/completions", json=asked, timeout=60)
        events = [line for line in answer.text.splitlines() if line.startswith("data:")]
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert events[-1] == "data: [DONE]"
        assert len(events) == 5


@pytest.mark.vllm
def test_an_unknown_model_is_refused_alike(pair: tuple[str, str]) -> None:
    asked = {**ASKED, "model": "another"}
    real, fast = (httpx.post(f"{url}/v1/completions", json=asked, timeout=60) for url in pair)
    assert fast.status_code == real.status_code == 404
    assert_part_of(shape(fast.json()), shape(real.json()))


@pytest.mark.vllm
def test_every_metric_of_it_is_one_of_the_real(pair: tuple[str, str]) -> None:
    real, fast = (
        set(re.findall(r"^(vllm:\w+){", httpx.get(f"{url}/metrics", timeout=30).text, re.M))
        for url in pair
    )
    assert fast <= real
    assert fast


@pytest.mark.vllm
def test_its_workers_log_their_ranks_as_the_real_do(pair: tuple[str, str], fleet: Fleet) -> None:
    lines = []
    for host, name in (("node01", "orc-real-r0-n0"), ("node02", "orc-fast-r0-n0")):
        log = fleet.host(host).run(["sh", "-c", f"docker logs {name} 2>&1"]).stdout
        lines += re.findall(r"rank \d+ in world size .*", log)
    assert lines[0].strip() == lines[1].strip()


def assert_part_of(fast: Any, real: Any) -> None:
    """Every name of `fast` is in the same place of `real`."""
    if isinstance(fast, dict):
        for name, inner in fast.items():
            assert name in real, name
            assert_part_of(inner, real[name])
    elif isinstance(fast, list) and fast:
        assert_part_of(fast[0], real[0])
