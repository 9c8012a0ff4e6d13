"""HTTP to an address as seen from a host: httpx over `Connection.open_socket`.

So an endpoint on the data plane, or on a port that only the host itself reaches, can be asked
from anywhere, and no host needs curl.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Iterator
from typing import Any

import httpcore
import httpx

from orchestrator.errors import UnreachableError
from orchestrator.transport.connection import Connection, StreamSocket


def client(connection: Connection, *, timeout: float) -> httpx.Client:
    """An HTTP client whose every request leaves from `connection`'s host."""
    return httpx.Client(transport=_HostTransport(connection), timeout=timeout, trust_env=False)


class _HostTransport(httpx.BaseTransport):
    """httpx's own transport does just this, but lets nobody choose the network backend."""

    def __init__(self, connection: Connection) -> None:
        self._pool = httpcore.ConnectionPool(network_backend=_HostNetwork(connection))

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        assert isinstance(request.stream, httpx.SyncByteStream)
        url = request.url
        try:
            answer = self._pool.handle_request(
                httpcore.Request(
                    method=request.method,
                    url=httpcore.URL(
                        scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
                    ),
                    headers=request.headers.raw,
                    content=request.stream,
                    extensions=request.extensions,
                )
            )
        except httpcore.TimeoutException as error:
            raise httpx.ReadTimeout(str(error) or "no answer in time", request=request) from error
        except (httpcore.NetworkError, httpcore.ProtocolError) as error:
            raise httpx.TransportError(str(error), request=request) from error
        assert isinstance(answer.stream, Iterable)
        return httpx.Response(
            status_code=answer.status,
            headers=answer.headers,
            stream=_Body(answer.stream, answer.close),
            extensions=answer.extensions,
            request=request,
        )

    def close(self) -> None:
        self._pool.close()


class _Body(httpx.SyncByteStream):
    def __init__(self, stream: Iterable[bytes], close: Any) -> None:
        self._stream = stream
        self._close = close

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._stream
        except httpcore.TimeoutException as error:
            raise httpx.ReadTimeout(str(error) or "no answer in time") from error
        except (httpcore.NetworkError, httpcore.ProtocolError) as error:
            raise httpx.TransportError(str(error)) from error

    def close(self) -> None:
        self._close()


class _HostNetwork(httpcore.NetworkBackend):
    """Opens TCP streams from the host."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,  # noqa: ARG002 - the host's own network decides
        socket_options: Iterable[Any] | None = None,  # noqa: ARG002
    ) -> httpcore.NetworkStream:
        try:
            socket = self._connection.open_socket(host, port, timeout=timeout or 10.0)
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(str(error)) from error
        except (OSError, UnreachableError) as error:
            raise httpcore.ConnectError(str(error)) from error
        return _Stream(socket)


class _Stream(httpcore.NetworkStream):
    def __init__(self, socket: StreamSocket) -> None:
        self._socket = socket

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        try:
            self._socket.settimeout(timeout)
            return self._socket.recv(max_bytes)
        except TimeoutError as error:
            raise httpcore.ReadTimeout(str(error) or "no answer in time") from error
        except (OSError, EOFError) as error:
            raise httpcore.ReadError(str(error)) from error

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        try:
            self._socket.settimeout(timeout)
            self._socket.sendall(buffer)
        except TimeoutError as error:
            raise httpcore.WriteTimeout(str(error)) from error
        except (OSError, EOFError) as error:
            raise httpcore.WriteError(str(error)) from error

    def close(self) -> None:
        self._socket.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,  # noqa: ARG002
        server_hostname: str | None = None,  # noqa: ARG002
        timeout: float | None = None,  # noqa: ARG002
    ) -> httpcore.NetworkStream:
        raise httpcore.UnsupportedProtocol("vLLM's endpoints are asked over plain HTTP only")

    def get_extra_info(self, info: str) -> Any:  # noqa: ARG002
        return None
