"""HTTP/1.1 server of the demo bookshop: keep-alive, bodies with Content-Length, one task per connection."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from http import HTTPStatus

from skitter.demo_site.site import Answer, Bookshop, Call
from skitter.errors import UsageError

_MAX_HEAD_BYTES = 65_536
_MAX_BODY_BYTES = 1_048_576


@contextlib.asynccontextmanager
async def serving(host: str, port: int, *, latency_seconds: float = 0.0) -> AsyncIterator[str]:
    """Serve the bookshop during the ``with`` block and yield its URL; port 0 selects a free port."""
    shop = Bookshop()
    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(_converse(shop, reader, writer, latency_seconds))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    try:
        server = await asyncio.start_server(connected, host, port, limit=_MAX_HEAD_BYTES, backlog=1024)
    except OSError as error:
        raise UsageError(
            f"cannot listen: {host}:{port}: {error.strerror or error}",
            hint="name another address with --bind HOST:PORT",
        ) from error
    try:
        shown = f"[{host}]" if ":" in host else host
        yield f"http://{shown}:{server.sockets[0].getsockname()[1]}/"
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


async def _converse(
    shop: Bookshop, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, latency_seconds: float
) -> None:
    try:
        # A client may disconnect in the middle of a request; this is not reported.
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            is_kept = True
            while is_kept:
                head = await _read_head(reader)
                if head is None:
                    answer, method, is_kept = Answer(status=400), "GET", False
                else:
                    method, target, headers, is_kept = head
                    body = await reader.readexactly(int(headers.get("content-length", "0")))
                    answer = shop.answer(Call(method=method, target=target, headers=headers, body=body))
                if delay := answer.delay_seconds + latency_seconds:
                    await asyncio.sleep(delay)
                writer.write(_wire(answer, method, is_kept))
                await writer.drain()
    finally:
        writer.close()


async def _read_head(reader: asyncio.StreamReader) -> tuple[str, str, dict[str, str], bool] | None:
    """Return method, target, headers and whether the connection is kept; None if it is not HTTP, or too large."""
    try:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[:-2]
    except asyncio.LimitOverrunError:
        return None
    words = lines[0].split(" ")
    if len(words) != 3 or not words[1].startswith("/") or not words[2].startswith("HTTP/1."):
        return None
    headers = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon:
            return None
        headers[name.strip().lower()] = value.strip()
    length = headers.get("content-length", "0")
    if "transfer-encoding" in headers or not length.isdecimal() or int(length) > _MAX_BODY_BYTES:
        return None
    connection = headers.get("connection", "").lower()
    is_kept = connection != "close" if words[2] == "HTTP/1.1" else connection == "keep-alive"
    return words[0], words[1], headers, is_kept


def _wire(answer: Answer, method: str, is_kept: bool) -> bytes:
    headers = [*answer.headers, ("Connection", "keep-alive" if is_kept else "close")]
    if answer.status != 304:
        headers += [("Content-Type", answer.content_type), ("Content-Length", str(len(answer.body)))]
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    head = f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}\r\n{lines}\r\n".encode("latin-1")
    return head if method == "HEAD" else head + answer.body
