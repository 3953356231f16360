"""The TCP relay of all tests: it cuts, delays, loses and swallows what goes between a client and a server.

A test decides by the content of a request, by an event, or by chance with a seed. A cut may come anywhere: before a
request has gone through, after it has been carried out and before its answer, or in the middle of the answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import threading
from collections.abc import Callable
from typing import Self

from skitter.testing.lossy_proxy import LossyProxy, Passage, in_a_thread

HANG_SECONDS = 300.0
"""After this time a test that waits for an event of a relay counts as one that hangs."""


class Relay(LossyProxy):
    """Between clients and the server on ``port``, on an address of its own. It runs in a thread, within a block."""

    def __init__(self, host: str, port: int, *, seed: int = 1) -> None:
        super().__init__(host, port)
        self.cut_requests = 0.0
        """Of the pieces on their way to the server, so many are the last of their connection, and pass in part only."""
        self.cut_answers = 0.0
        """The same on the way back: what was asked has been done, and the client does not know it."""
        self.delay_seconds = 0.0
        """At most, for each piece."""
        self.cuts = 0
        self.connections = 0
        self._chance = random.Random(seed)
        self._swallows = False
        self._last_connection = 0
        self._clients: set[asyncio.StreamWriter] = set()
        self._changed = threading.Condition()
        self._port_holder = _bound(0)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    # ---- what the test says, in its own thread

    def cut(self) -> None:
        """End every connection now."""
        self._loop.call_soon_threadsafe(self._abort_all)

    def lead_to(self, port: int) -> None:
        """End every connection, and lead those that follow to another server. Returns when that is so."""
        done = threading.Event()

        def lead() -> None:
            self._target = ("127.0.0.1", port)
            self._abort_all()
            done.set()

        self._loop.call_soon_threadsafe(lead)
        done.wait(HANG_SECONDS)

    def black_hole(self, *, opens: bool) -> None:
        """Swallow everything from now on, or end that. A connection that has lost a piece gets nothing any more."""
        self._loop.call_soon_threadsafe(setattr, self, "_swallows", opens)

    def go_down_after(self, connections: int) -> None:
        """Refuse connections after so many more, the last of which is cut."""
        self._last_connection = self.connections + connections

    def go_down(self) -> None:
        """Refuse connections from now on; those that are open stay."""
        asyncio.run_coroutine_threadsafe(self._refuse(), self._loop).result(HANG_SECONDS)

    def come_up(self) -> None:
        """Accept connections again."""
        self._last_connection = 0
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(HANG_SECONDS)

    def wait_for(self, condition: Callable[[Self], object], what: str = "") -> None:
        """Wait until something about its counts is so."""
        with self._changed:
            came = self._changed.wait_for(lambda: condition(self), HANG_SECONDS)
        assert came, f"{what or 'it did not come to it'}: {self.connections=}, {self.cuts=}, {self.lost=}"

    def __enter__(self) -> Self:
        self._thread = in_a_thread(self)
        self._thread.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.__exit__(None, None, None)

    # ---- in the thread of the relay

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self.port = self._port_holder.getsockname()[1]
        await self._listen()
        return self

    async def __aexit__(self, *error: object) -> None:
        await super().__aexit__(*error)
        self._port_holder.close()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, sock=_bound(self.port), backlog=512)

    async def _refuse(self) -> None:
        self._server.close()

    def _abort_all(self) -> None:
        for writer in self._clients:
            writer.transport.abort()

    def _count(self, **more: int) -> None:
        with self._changed:
            for name, number in more.items():
                setattr(self, name, getattr(self, name) + number)
            self._changed.notify_all()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._count(connections=1)
        if self._last_connection and self.connections >= self._last_connection:
            self._server.close()
            writer.transport.abort()
            return
        await super()._serve(reader, writer)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients.add(writer)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                if self._swallows:
                    while await reader.read(65_536):
                        pass
                else:
                    await self._connect(reader, writer)
        finally:
            self._clients.discard(writer)
            writer.close()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection. Proxies of a protocol read first what is asked of them."""
        await super()._pass_on(reader, writer)

    async def _answered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, passage: Passage) -> None:
        await super()._answered(reader, writer, passage)
        # Of an answer that was lost.
        self._count()

    async def _send(self, writer: asyncio.StreamWriter, data: bytes, passage: Passage, *, is_answer: bool) -> bool:
        if self.delay_seconds:
            await asyncio.sleep(self._chance.uniform(0, self.delay_seconds))
        passage.is_swallowed = passage.is_swallowed or self._swallows
        if passage.is_swallowed:
            return True
        if self._chance.random() < (self.cut_answers if is_answer else self.cut_requests):
            writer.write(data[: self._chance.randrange(len(data) + 1)])
            await writer.drain()
            self._count(cuts=1)
            return False
        return await super()._send(writer, data, passage, is_answer=is_answer)


def _bound(port: int) -> socket.socket:
    """A socket of the port that does not listen. Several may have one port: so it stays a relay's that is down."""
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    found.bind(("127.0.0.1", port))
    return found
