"""A real HTTP server whose answers a test decides: what vLLM's endpoint looks like from outside."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Behaviour:
    """How the endpoint answers; may be changed while it runs."""

    health: int = 200
    liveness: int = 404
    models: list[str] = field(default_factory=lambda: ["tiny"])
    completion: int = 200
    completion_body: str = '{"error": {"message": "boom"}}'
    chunks: list[Any] = field(
        default_factory=lambda: [{"choices": [{"text": "hel"}]}, {"choices": [{"text": "lo"}]}]
    )
    delay: float = 0.0
    between: float = 0.0
    api_key: str | None = None
    dead_ranks: frozenset[str] = frozenset()  # as X-data-parallel-rank names them
    ranks: list[str | None] = field(default_factory=list)  # that completions asked for
    requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list)


@contextmanager
def endpoint(behaviour: Behaviour) -> Iterator[str]:
    """Serve `behaviour`; gives the URL."""

    class QuietServer(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """A client that hangs up early is part of the tests, and nobody's standard error."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            behaviour.requests.append((self.path, {}))
            probes = {"/health": behaviour.health, "/liveness": behaviour.liveness}
            if self.path in probes:
                self._answer(probes[self.path], "")
            elif not self._allowed():
                self._answer(401, '{"error": "Unauthorized"}')
            else:
                data = [{"id": name} for name in behaviour.models]
                self._answer(200, json.dumps({"data": data}))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            behaviour.requests.append((self.path, body))
            time.sleep(behaviour.delay)
            rank = self.headers["X-data-parallel-rank"]
            behaviour.ranks.append(rank)
            status = 500 if rank in behaviour.dead_ranks else behaviour.completion
            if status != 200:
                self._answer(status, behaviour.completion_body)
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            for chunk in [*map(json.dumps, behaviour.chunks), "[DONE]"]:
                self.wfile.write(f"data: {chunk}\n\n".encode())
                self.wfile.flush()
                time.sleep(behaviour.between)

        def _allowed(self) -> bool:
            wanted = behaviour.api_key
            return wanted is None or self.headers["Authorization"] == f"Bearer {wanted}"

        def _answer(self, status: int, text: str) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: Any) -> None:
            """Silent."""

    server = QuietServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
