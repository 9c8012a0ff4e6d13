"""A steady load of completions on an endpoint, and the count of those that failed."""

from __future__ import annotations

import threading
import time
from types import TracebackType

import httpx

MOST = 20_000  # requests; a load ends by itself


class Load:
    """Clients that ask for one streamed completion after another while the context is open."""

    def __init__(
        self, url: str, model: str, *, clients: int = 3, tokens: int = 20, pause: float = 0.0
    ) -> None:
        self.requests = 0
        self.failures: list[str] = []
        self._url = url
        self._body = {"model": model, "prompt": "Hello", "max_tokens": tokens, "stream": True}
        self._pause = pause
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._ask_on) for _ in range(clients)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def wait_for(self, requests: int, seconds: float = 60) -> None:
        """Wait until so many more requests have ended."""
        wanted = self.requests + requests
        deadline = time.monotonic() + seconds
        while self.requests < wanted:
            assert time.monotonic() < deadline, f"{self.requests} requests, not {wanted}"
            time.sleep(0.05)

    def _ask_on(self) -> None:
        with httpx.Client(timeout=60, trust_env=False) as client:
            while not self._stop.is_set() and self.requests < MOST:
                problem = self._ask(client)
                with self._lock:
                    self.requests += 1
                    if problem:
                        self.failures.append(problem)
                self._stop.wait(self._pause)

    def _ask(self, client: httpx.Client) -> str | None:
        try:
            with client.stream("POST", f"{self._url}/v1/completions", json=self._body) as answer:
                text = answer.read().decode()
        except httpx.HTTPError as error:
            return repr(error)
        if answer.status_code != 200 or not text.rstrip().endswith("[DONE]"):
            return f"{answer.status_code} {text[-200:]!r}"
        return None
