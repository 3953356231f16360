"""Proxy that loses answers of a server: the request was executed, but the client gets no answer.

The server must answer one request after the other on each connection, as Redis does for a client without pipelining.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Self

Loses = Callable[[bytes, int], bool]
"""Function of a request and the number of its answer that returns whether the answer is lost."""


class LossyProxy:
    """Proxy on ``port``. A connection is closed when an answer is lost."""

    def __init__(self, host: str, port: int) -> None:
        self.port = 0
        self.lost = 0
        self.loses: Loses = lambda _request, _number: False
        self.meanwhile: Callable[[], Awaitable[object]] | None = None
        """Function that is awaited between a lost answer and the close of its connection."""
        self._target = (host, port)
        self._answers = 0
        self._open: set[asyncio.Task[None]] = set()

    def lose(self, word: bytes) -> None:
        """Lose the next answer to a request that contains this word."""
        until = self.lost + 1
        self.loses = lambda request, _: self.lost < until and word in request

    def lose_each_once(self, *words: bytes) -> None:
        """Lose the first answer to every request that contains one of these words."""
        lost: set[bytes] = set()

        def loses(request: bytes, _: int) -> bool:
            if request in lost or not any(word in request for word in words):
                return False
            lost.add(request)
            return True

        self.loses = loses

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # In a task of its own: the server of asyncio streams reports an error if the callback's task is cancelled.
        task = asyncio.create_task(self._pass_on(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._join(reader, writer, *await asyncio.open_connection(*self._target))

    async def _join(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        to_reader: asyncio.StreamReader,
        to_writer: asyncio.StreamWriter,
    ) -> None:
        """Pass on what comes from both sides until one of them ends."""
        passage = Passage()
        ways = [
            asyncio.create_task(self._asks(reader, to_writer, passage)),
            asyncio.create_task(self._answered(to_reader, writer, passage)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # Before anything is waited for: the wait may be cancelled.
            for end in (writer, to_writer):
                end.close()
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            for end in (writer, to_writer):
                with contextlib.suppress(OSError):
                    await end.wait_closed()

    async def _asks(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, passage: Passage) -> None:
        while data := await reader.read(65536):
            passage.request += data
            if not await self._send(writer, data, passage, is_answer=False):
                return

    async def _answered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, passage: Passage) -> None:
        while data := await reader.read(65536):
            if passage.request:
                self._answers += 1
                asked = bytes(passage.request)
                passage.request.clear()
                if self.loses(asked, self._answers):
                    self.lost += 1
                    if self.meanwhile is not None:
                        await self.meanwhile()
                    return
            if not await self._send(writer, data, passage, is_answer=True):
                return

    async def _send(
        self,
        writer: asyncio.StreamWriter,
        data: bytes,
        passage: Passage,  # noqa: ARG002  for relays that do more
        *,
        is_answer: bool,  # noqa: ARG002
    ) -> bool:
        """Pass a piece on. False ends the connection."""
        writer.write(data)
        await writer.drain()
        return True


class Passage:
    """A connection through the proxy."""

    def __init__(self) -> None:
        self.request = bytearray()
        """What was asked and has not been answered."""
        self.is_swallowed = False
        """For proxies that lose pieces: what comes later must not go on as if nothing had been."""


@contextlib.contextmanager
def in_a_thread(way: LossyProxy) -> Iterator[LossyProxy]:
    """Run the proxy in a thread, for tests without an event loop."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    try:
        yield asyncio.run_coroutine_threadsafe(way.__aenter__(), loop).result(60)
    finally:
        asyncio.run_coroutine_threadsafe(way.__aexit__(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
