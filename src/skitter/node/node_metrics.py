"""Metrics of one node: the counters of its workers, also of those that have ended, and the HTTP endpoint for them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

from skitter.errors import UsageError
from skitter.node.memory_watch import resident_bytes
from skitter.observe import metrics
from skitter.observe.metrics import NODE_METRICS, Sample
from skitter.observe.node_counters import GAUGES, LENGTH, NodeCounters, samples_of

HEAD_BYTES = 8_192
REQUEST_SECONDS = 5.0
"""For the head of a request to arrive, and for its answer to be taken."""
MAX_CONNECTIONS = 32
DEFAULT_HOST = "127.0.0.1"


class NodeMetrics:
    """Sums over all workers that this node has had: a worker that dies takes nothing along."""

    def __init__(self, build_info: Sample) -> None:
        self._build_info = build_info
        self._started_at = time.time()
        self._live: dict[NodeCounters, int] = {}
        self._ended = [0] * LENGTH
        self._workers_started = self._workers_died = self._leases_returned = 0

    def joined(self, counters: NodeCounters, pid: int = 0) -> None:
        """Read the counters of a worker from now on. ``pid``: of its process; 0: it is in this one."""
        self._live[counters] = pid
        self._workers_started += 1

    def left(self, counters: NodeCounters) -> None:
        """Keep what a worker has counted, which has ended."""
        if self._live.pop(counters, None) is not None:
            numbers = counters.read()
            for place in GAUGES:
                numbers[place] = 0
            self._ended = [before + number for before, number in zip(self._ended, numbers, strict=True)]

    def died(self, leases: int) -> None:
        """Count a worker that ended in the middle of its work, and the leases that it held."""
        self._workers_died += 1
        self._leases_returned += leases

    def samples(self) -> Iterator[Sample]:
        """Give out all series of the node."""
        rows = [self._ended, *(counters.read() for counters in self._live)]
        yield self._build_info
        yield Sample(metrics.NODE_STARTED, (), self._started_at)
        yield Sample(metrics.NODE_WORKERS, (), len(self._live))
        yield Sample(metrics.NODE_WORKERS_STARTED, (), self._workers_started)
        yield Sample(metrics.NODE_WORKERS_DIED, (), self._workers_died)
        yield Sample(metrics.NODE_RECOVERED, ("died",), self._leases_returned)
        yield Sample(metrics.NODE_MEMORY, ("supervisor",), resident_bytes())
        yield Sample(metrics.NODE_MEMORY, ("workers",), sum(resident_bytes(pid) for pid in self._live.values() if pid))
        yield from samples_of([sum(column) for column in zip(*rows, strict=True)])


def read_address(text: str) -> tuple[str, int]:
    """Return host and port of ``[HOST:]PORT``."""
    host, colon, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535 or (colon and not host):
        raise UsageError(f"not [HOST:]PORT: --metrics {text}", hint="as in 9464, 0.0.0.0:9464 or [::1]:9464")
    return host.removeprefix("[").removesuffix("]") or DEFAULT_HOST, int(port)


@asynccontextmanager
async def serve_metrics(node: NodeMetrics, address: str) -> AsyncIterator[str]:
    """Answer ``GET /metrics`` at an address while the body works, which is given the URL."""
    host, port = read_address(address)
    endpoint = _Endpoint(node)
    try:
        server = await asyncio.start_server(endpoint.answer, host, port, limit=HEAD_BYTES)
    except OSError as error:
        raise UsageError(
            f"cannot listen: --metrics {address}: {_reason(error)}",
            hint="name another port, or 0 for any",
        ) from error
    shown = f"[{host}]" if ":" in host else host
    try:
        yield f"http://{shown}:{server.sockets[0].getsockname()[1]}/metrics"
    finally:
        server.close()
        endpoint.close()


def _reason(error: OSError) -> str:
    is_name = isinstance(error, socket.gaierror)
    # That of asyncio repeats the address.
    return str(error.strerror if is_name or error.errno is None else os.strerror(error.errno))


class _Endpoint:
    """A server of one small page, for a few clients: each connection is one request."""

    def __init__(self, node: NodeMetrics) -> None:
        self._node = node
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
        headers = {name.lower(): value for name, _, value in (line.partition(":") for line in lines)}
        kind, wants_open = metrics.content_type(headers.get("accept", ""))
        if path.partition("?")[0] == "/healthz":
            status, kind, body = "200 OK", "text/plain", "ok\n"
        elif path.partition("?")[0] != "/metrics":
            status, kind, body = "404 Not Found", "text/plain", "there is /metrics\n"
        else:
            status, body = "200 OK", metrics.render(self._node.samples(), NODE_METRICS, open_metrics=wants_open)
        if method not in ("GET", "HEAD"):
            status, kind, body = "405 Method Not Allowed", "text/plain", "GET, please\n"
        data = body.encode()
        answer = (
            f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\nConnection: close\r\n\r\n"
        )
        return answer.encode() + (data if method == "GET" else b"")

    def close(self) -> None:
        for writer in self._writers:
            writer.close()
