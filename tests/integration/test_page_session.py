"""A session of single pages: what a prompt asks for, one page after the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from skitter.app.page_session import PageSession
from skitter.errors import FetchError
from skitter.model.request import Request
from skitter.settings import Settings


@asynccontextmanager
async def server(paths: list[str], asked: asyncio.Event, release: asyncio.Event) -> AsyncIterator[str]:
    """A server that sets ``asked`` when it is asked for /slow and answers after ``release``, and has a /busy."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        path = request.split(b" ")[1].decode()
        paths.append(path)
        if path == "/slow":
            asked.set()
            await release.wait()
        status = b"503 No" if path == "/busy" else b"404 No" if path == "/robots.txt" else b"200 OK"
        writer.write(b"HTTP/1.1 %b\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok" % status)
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"


async def test_a_page_that_was_interrupted_holds_up_nothing_and_every_status_is_shown() -> None:
    paths: list[str] = []
    asked, release = asyncio.Event(), asyncio.Event()
    async with (
        server(paths, asked, release) as base,
        PageSession(Settings.from_layers([("test", {"per_host": 1})])) as session,
    ):
        slow = asyncio.create_task(session.fetch(Request(f"{base}/slow")))
        await asked.wait()
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        async with asyncio.timeout(20):
            assert (await session.fetch(Request(f"{base}/a"))).body == b"ok"
            busy = await session.fetch(Request(f"{base}/busy"))
        assert busy.status == 503
        # robots.txt is asked for anew after an interruption, and then kept.
        assert paths == ["/robots.txt", "/slow", "/robots.txt", "/a", "/busy"]
        release.set()


async def test_a_host_that_came_back_is_asked_again() -> None:
    paths: list[str] = []
    async with PageSession(Settings()) as session:
        with pytest.raises(FetchError, match="the host is down"):
            await session.fetch(Request("http://127.0.0.1:1/"))
        async with server(paths, asyncio.Event(), asyncio.Event()) as base:
            with pytest.raises(FetchError):
                await session.fetch(Request("http://127.0.0.1:1/"))
            assert (await session.fetch(Request(f"{base}/a"))).status == 200
