"""Is an endpoint healthy: `/health`, `/v1/models` and one real completion.

`/health` alone says 200 with a dead follower and with a model whose every completion is a 500
(vllm-project/vllm#32136, gpustack#3367), so a completion is what counts.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from typing import Any, Literal

import httpx

from orchestrator.health import http
from orchestrator.secret import Secret, redact
from orchestrator.transport.connection import Connection

Stage = Literal["connect", "health", "models", "completion", "healthy"]
_PROMPT = "Hello"
# Which of the endpoint's ranks answers, counted from 0 at each endpoint whatever they are among
# all ranks (vLLM 0.32.0, InputProcessor.process_inputs).
_RANK_HEADER = "X-data-parallel-rank"


@dataclass(frozen=True, slots=True)
class Target:
    """An endpoint to ask: which replica's, from which host, where, and under which model name.

    `data_ranks` are the data-parallel ranks behind it, each of which has to answer; empty without
    data parallel.
    """

    replica: int
    host: str
    url: str
    model: str
    api_key: Secret | None = None
    data_ranks: tuple[int, ...] = ()
    health_path: str = "/health"


@dataclass(frozen=True, slots=True)
class EndpointCheck:
    """How one look at an endpoint went.

    `stage` is where it ended: `healthy`, or the step that failed. `final` is a failure that
    waiting cannot mend (another model is served, a key is refused). Times are in seconds; of
    several data-parallel ranks they are the slowest's.
    """

    stage: Stage
    detail: str = ""
    status: int | None = None  # of HTTP, where the step that failed got an answer
    final: bool = False
    slow: bool = False  # the completion had no answer in time, all before it was well
    models: tuple[str, ...] = ()
    text: str | None = None  # of the completion
    connect_seconds: float | None = None
    first_token_seconds: float | None = None
    total_seconds: float | None = None
    data_ranks: tuple[int, ...] = ()  # each of which answered a completion

    @property
    def healthy(self) -> bool:
        return self.stage == "healthy"

    @property
    def key_refused(self) -> bool:
        """Whether it wants another API key than orc has."""
        return self.status in (401, 403)


def check_endpoint(
    connection: Connection,
    target: Target,
    *,
    completion: bool = True,
    tokens: int = 1,
    connect_timeout: float = 5.0,
    completion_timeout: float = 60.0,
) -> EndpointCheck:
    """Ask the endpoint from `connection`'s host. Never raises for what the endpoint does."""
    headers = {"Authorization": f"Bearer {target.api_key.reveal()}"} if target.api_key else {}
    with http.client(connection, timeout=connect_timeout) as client:
        client.headers.update(headers)
        try:
            answer = _look(client, target, completion, tokens, completion_timeout)
        except httpx.HTTPError as error:  # each step catches its own; this is for the rest
            answer = EndpointCheck("connect", f"{target.url}: {error}")
    return answer


def _look(
    client: httpx.Client, target: Target, completion: bool, tokens: int, completion_timeout: float
) -> EndpointCheck:
    begun = time.monotonic()
    try:
        health = client.get(f"{target.url}{target.health_path}")
    except httpx.TimeoutException:
        return EndpointCheck("health", f"{target.health_path} gives no answer")
    except httpx.HTTPError as error:
        return EndpointCheck("connect", f"nothing answers at {target.url} yet ({error})")
    connect_seconds = time.monotonic() - begun
    if health.status_code != 200:
        return EndpointCheck(
            "health", _said(target.health_path, health, target), health.status_code
        )
    failed, models = _models(client, target)
    if failed:
        return failed
    if not completion:
        return EndpointCheck("healthy", models=models, connect_seconds=connect_seconds)
    check = _complete(client, target, tokens, completion_timeout)
    return replace(check, models=models, connect_seconds=connect_seconds)


def _models(client: httpx.Client, target: Target) -> tuple[EndpointCheck | None, tuple[str, ...]]:
    try:
        answer = client.get(f"{target.url}/v1/models")
    except httpx.HTTPError as error:
        return EndpointCheck("models", f"/v1/models: {error}"), ()
    if answer.status_code in (401, 403):
        return EndpointCheck("models", _KEY_WANTED, answer.status_code, final=True), ()
    if answer.status_code != 200:
        return EndpointCheck("models", _said("/v1/models", answer, target), answer.status_code), ()
    models = _model_names(answer)
    if target.model not in models:
        listed = ", ".join(models) or "nothing"
        detail = f"/v1/models lists {listed}, not {target.model}"
        return EndpointCheck("models", detail, final=True, models=models), models
    return None, models


_KEY_WANTED = "the endpoint wants an API key; set VLLM_API_KEY to it where orc runs"


def _complete(client: httpx.Client, target: Target, tokens: int, timeout: float) -> EndpointCheck:
    """A completion by every data-parallel rank; the first failure, else the slowest of them."""
    ranks = target.data_ranks
    if not ranks:
        return _completion(client, target, tokens, timeout, {})
    checks = []
    for index, rank in enumerate(ranks):
        headers = {_RANK_HEADER: str(index)} if len(ranks) > 1 else {}
        check = _completion(client, target, tokens, timeout, headers)
        if not check.healthy:
            return replace(check, detail=f"data-parallel rank {rank}: {check.detail}")
        checks.append(check)
    slowest = max(checks, key=lambda check: check.total_seconds or 0.0)
    return replace(slowest, data_ranks=ranks)


def _completion(
    client: httpx.Client, target: Target, tokens: int, timeout: float, headers: dict[str, str]
) -> EndpointCheck:
    body = {
        "model": target.model,
        "prompt": _PROMPT,
        "max_tokens": tokens,
        "temperature": 0,
        "stream": True,
    }
    begun = time.monotonic()
    first: float | None = None
    pieces: list[str] = []
    try:
        with client.stream(
            "POST", f"{target.url}/v1/completions", json=body, headers=headers, timeout=timeout
        ) as answer:
            if answer.status_code != 200:
                answer.read()
                return EndpointCheck(
                    "completion",
                    _said("a completion", answer, target),
                    answer.status_code,
                    final=answer.status_code in (401, 403, 404),
                )
            for line in answer.iter_lines():
                chunk = _chunk(line)
                if chunk is None:
                    continue
                if "error" in chunk:
                    return EndpointCheck("completion", f"a completion: {chunk['error']}", 500)
                first = first if first is not None else time.monotonic() - begun
                pieces += [choice.get("text") or "" for choice in chunk.get("choices") or ()]
                if time.monotonic() - begun > timeout:
                    raise httpx.ReadTimeout("")
    except httpx.TimeoutException:
        detail = f"a completion gives no answer in {timeout:.0f} s"
        return EndpointCheck("completion", detail, slow=True)
    except httpx.HTTPError as error:
        return EndpointCheck("completion", f"a completion: {error}")
    if first is None:
        return EndpointCheck("completion", "a completion came back empty", 200)
    return EndpointCheck(
        "healthy",
        text="".join(pieces),
        first_token_seconds=first,
        total_seconds=time.monotonic() - begun,
    )


def _chunk(line: str) -> dict[str, Any] | None:
    """One server-sent event of a streamed completion."""
    if not line.startswith("data:") or line.endswith("[DONE]"):
        return None
    try:
        chunk = json.loads(line.removeprefix("data:"))
    except json.JSONDecodeError:
        return None
    return chunk if isinstance(chunk, dict) else None


def _model_names(answer: httpx.Response) -> tuple[str, ...]:
    try:
        return tuple(str(model["id"]) for model in answer.json()["data"])
    except (ValueError, KeyError, TypeError):
        return ()


def _said(what: str, answer: httpx.Response, target: Target) -> str:
    body = " ".join(answer.text.split())[:300]
    if target.api_key:
        body = redact(body, [target.api_key])
    hint = " (a model without completions: set health.completion=false)"
    more = hint if what == "a completion" and answer.status_code == 404 else ""
    return f"{what} answers {answer.status_code}{': ' + body if body else ''}{more}"


def describe(check: EndpointCheck) -> str:
    """A check in words, with its timings."""
    if not check.healthy:
        return check.detail
    if check.total_seconds is None or check.first_token_seconds is None:
        return "healthy (no completion was asked)"
    ranks = f"{len(check.data_ranks)} data-parallel ranks, the slowest: "
    return (
        f"healthy: connected in {(check.connect_seconds or 0) * 1000:.0f} ms, "
        f"{ranks if len(check.data_ranks) > 1 else ''}first token after "
        f"{check.first_token_seconds * 1000:.0f} ms, completion in "
        f"{check.total_seconds * 1000:.0f} ms"
    )
