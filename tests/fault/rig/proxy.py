"""A TCP proxy that cuts, delays and swallows: a bad network between one node and its Redis.

It runs in a thread of its own and is told from outside what to do. A cut may come anywhere: before a command has gone
through, after it has been carried out and before its answer, or in the middle of the answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

CHUNK_BYTES = 65_536


class Proxy:
    """Between a node and ``target``; ``url`` is what the node is told. A context manager."""

    def __init__(self, host: str, port: int, *, seed: int) -> None:
        self.cut_commands = 0.0
        """Of the chunks on their way to the target, so many are the last of their connection, and pass in part only."""
        self.cut_answers = 0.0
        """The same on the way back: what was asked has been done, and whoever asked does not know it."""
        self.delay_seconds = 0.0
        """At most, for each chunk."""
        self.cuts = 0
        self._target = (host, port)
        self._chance = random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._open: set[asyncio.StreamWriter] = set()
        self._passing: set[asyncio.Task[None]] = set()
        self._hole = False

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._call(asyncio.start_server(self._accept, "127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut(self) -> None:
        """Every connection ends now."""
        self._loop.call_soon_threadsafe(self._abort_all)

    def black_hole(self, *, opens: bool) -> None:
        """From now on connections are accepted and everything in them is swallowed, for good; or that is over."""
        self._loop.call_soon_threadsafe(setattr, self, "_hole", opens)

    # ---- in the thread

    def _call(self, step):
        return asyncio.run_coroutine_threadsafe(step, self._loop).result(10)

    async def _stop(self) -> None:
        self._server.close()
        self._abort_all()
        for task in self._passing:
            task.cancel()
        if self._passing:
            await asyncio.wait(self._passing)

    def _abort_all(self) -> None:
        for writer in self._open:
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._passing.add(task)
        self._open.add(writer)
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await self._connected(reader, writer)
        self._open.discard(writer)
        self._passing.discard(task)
        writer.transport.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._hole:
            while await reader.read(CHUNK_BYTES):
                pass
            return
        other_reader, other_writer = await asyncio.open_connection(*self._target)
        swallowed = [False]
        ways = [
            asyncio.create_task(self._pass(reader, other_writer, swallowed, lambda: self.cut_commands)),
            asyncio.create_task(self._pass(other_reader, writer, swallowed, lambda: self.cut_answers)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            other_writer.transport.abort()
            for way in ways:
                way.cancel()
            await asyncio.wait(ways)
            for way in ways:
                if not way.cancelled():
                    way.exception()

    async def _pass(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        swallowed: list[bool],
        cut_share: Callable[[], float],
    ) -> None:
        while chunk := await reader.read(CHUNK_BYTES):
            if self.delay_seconds:
                await asyncio.sleep(self._chance.uniform(0, self.delay_seconds))
            # What has lost a piece must not go on as if nothing had been.
            swallowed[0] = swallowed[0] or self._hole
            if swallowed[0]:
                continue
            if self._chance.random() < cut_share():
                self.cuts += 1
                writer.write(chunk[: self._chance.randrange(len(chunk) + 1)])
                await writer.drain()
                return
            writer.write(chunk)
            await writer.drain()
