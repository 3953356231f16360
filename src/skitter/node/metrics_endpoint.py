"""HTTP endpoint for the metrics of one process: ``/metrics`` for whoever has its token, ``/healthz`` for everybody."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from skitter import private_files
from skitter.errors import UsageError
from skitter.observe import metrics
from skitter.observe.metrics import Metric, Sample
from skitter.server_url import is_loopback

HEAD_BYTES = 8_192
REQUEST_SECONDS = 5.0
"""For the head of a request to arrive, and for its answer to be taken."""
MAX_CONNECTIONS = 32
DEFAULT_HOST = "127.0.0.1"
MIN_TOKEN_CHARS = 16


def read_address(text: str) -> tuple[str, int]:
    """Return host and port of ``[HOST:]PORT``."""
    host, colon, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535 or (colon and not host):
        raise UsageError(f"not [HOST:]PORT: --metrics {text}", hint="as in 9464, 0.0.0.0:9464 or [::1]:9464")
    return host.removeprefix("[").removesuffix("]") or DEFAULT_HOST, int(port)


@asynccontextmanager
async def serve_metrics(
    samples: Callable[[], Iterable[Sample]], families: Mapping[str, Metric], address: str, token_file: str = ""
) -> AsyncIterator[str]:
    """Answer ``GET /metrics`` at an address while the body works, which is given the URL.

    ``token_file``: has the bearer token that a client must send; empty: none, on loopback only.
    """
    host, port = read_address(address)
    if not token_file and not is_loopback(host):
        raise UsageError(
            f"without a token, metrics can be served on this machine only: --metrics {address}",
            hint="use --metrics-token-file FILE, or omit the host",
        )
    endpoint = _Endpoint(samples, families, _read_token(token_file) if token_file else "")
    try:
        server = await asyncio.start_server(endpoint.answer, host, port, limit=HEAD_BYTES)
    except OSError as error:
        raise UsageError(
            f"cannot listen: --metrics {address}: {_reason(error)}",
            hint="choose another port, or 0 for a free one",
        ) from error
    shown = f"[{host}]" if ":" in host else host
    try:
        yield f"http://{shown}:{server.sockets[0].getsockname()[1]}/metrics"
    finally:
        server.close()
        endpoint.close()


def _read_token(file: str) -> str:
    try:
        token = private_files.read(Path(file)).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read the token of the metrics: {file}: {error}",
            hint=f"only its owner may read it: chmod 600 {file}",
        ) from error
    # What is wrong is not quoted: it may be a token.
    if len(token) < MIN_TOKEN_CHARS or len(token.split()) != 1:
        raise UsageError(
            f"the file does not have one token of at least {MIN_TOKEN_CHARS} characters: {file}",
            hint="create one with: openssl rand -hex 32",
        )
    return token


def _reason(error: OSError) -> str:
    is_name = isinstance(error, socket.gaierror)
    # That of asyncio repeats the address.
    return str(error.strerror if is_name or error.errno is None else os.strerror(error.errno))


class _Endpoint:
    """A server of one small page, for a few clients: each connection is one request."""

    def __init__(self, samples: Callable[[], Iterable[Sample]], families: Mapping[str, Metric], token: str) -> None:
        self._samples = samples
        self._families = families
        self._authorization = f"bearer {token}".encode() if token else b""
        self._writers: set[asyncio.StreamWriter] = set()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        # Whoever sends nothing, too much or nonsense, or goes away, is cut off.
        try:
            with contextlib.suppress(TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                async with asyncio.timeout(REQUEST_SECONDS):
                    if len(self._writers) <= MAX_CONNECTIONS:
                        head = await reader.readuntil(b"\r\n\r\n")
                        writer.write(self._page(head.decode("latin-1")))
                        await writer.drain()
        finally:
            self._writers.discard(writer)
            writer.close()

    def _page(self, head: str) -> bytes:
        first, *lines = head.split("\r\n")
        method, path = [*first.split(" "), "", ""][:2]
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        kind, wants_open = metrics.content_type(headers.get("accept", ""))
        more = ""
        if path.partition("?")[0] == "/healthz":
            status, kind, body = "200 OK", "text/plain", "ok\n"
        elif not self._is_known(headers.get("authorization", "")):
            status, kind, body = "401 Unauthorized", "text/plain", "a token is required\n"
            more = "WWW-Authenticate: Bearer\r\n"
        elif path.partition("?")[0] != "/metrics":
            status, kind, body = "404 Not Found", "text/plain", "the metrics are at /metrics\n"
        else:
            status, body = "200 OK", metrics.render(self._samples(), self._families, open_metrics=wants_open)
        if method not in ("GET", "HEAD"):
            status, kind, body = "405 Method Not Allowed", "text/plain", "GET, please\n"
        data = body.encode()
        answer = (
            f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{more}Content-Length: {len(data)}\r\n"
            "Connection: close\r\n\r\n"
        )
        return answer.encode() + (data if method == "GET" else b"")

    def _is_known(self, authorization: str) -> bool:
        scheme, _, token = authorization.partition(" ")
        given = f"{scheme.lower()} {token.strip()}".encode("latin-1", "replace")
        return not self._authorization or hmac.compare_digest(given, self._authorization)

    def close(self) -> None:
        for writer in self._writers:
            writer.close()
