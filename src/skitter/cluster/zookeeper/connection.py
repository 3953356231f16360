"""One kazoo client behind an event loop: calls as awaitables, the session, watches, and no wait in the loop's thread.

kazoo has three threads: one for the connection, one for answers and one for watches. Calls are put into its queue from
the loop and their answers come back through ``call_soon_threadsafe``; what blocks (start, stop) runs in another thread.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from kazoo.exceptions import ConnectionLoss, KazooException, NodeExistsError, NoNodeError
from kazoo.protocol.states import KazooState, KeeperState, WatchedEvent

from skitter.cluster.zookeeper.address import Ensemble
from skitter.cluster.zookeeper.driver import Handler, kazoo_client
from skitter.cluster.zookeeper.errors import ANSWERS, INTERRUPTED, explained, unavailable, untrusted
from skitter.cluster.zookeeper.request import Request, create, create_container, exists, sync
from skitter.errors import ClusterUnavailableError

TRUSTED_PART = 3 / 4
"""The part of a session's time that a client may count on, from before its last answered call.

The leader ends sessions. A server that follows it passes on twice a tick which of its clients live, and may die before
it does so; a session has at least two ticks. So the leader's clock may be a quarter of the session ahead.
"""
_OUTSTANDING = 64
"""Calls, of up to three requests, in kazoo's queue at a time: the rest waits in the loop."""
_ENDED = (KeeperState.CLOSED, KeeperState.AUTH_FAILED)
_RESTART_SECONDS = 0.5


class Connection:
    """A session with an ensemble, made again when it has expired."""

    def __init__(self, ensemble: Ensemble) -> None:
        self.ensemble = ensemble
        self.session_seconds = ensemble.session_seconds
        """The time of the session that the servers have granted."""
        self.session_id = 0
        """The present session; 0: it has expired, and there is no other yet."""
        self._handler = Handler(ensemble.session_seconds / 3 / len(ensemble.hosts), ensemble.tls)
        self._client = kazoo_client(ensemble, self._handler)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False
        self._restart: asyncio.Task[None] | None = None
        self._connected = asyncio.Event()
        self._slots = asyncio.Semaphore(_OUTSTANDING)
        self._waiting: set[asyncio.Future[Any]] = set()
        self._watches: dict[str, set[asyncio.Event]] = {}
        self._callbacks: list[Callable[[], None]] = []

    @property
    def is_connected(self) -> bool:
        return self._connected.is_set()

    @property
    def trusted_seconds(self) -> float:
        """How long what the session holds lasts for sure, counted from before a call that was answered."""
        return self.session_seconds * TRUSTED_PART

    @property
    def answer_seconds(self) -> float:
        """How long a call waits for a connection and its answer."""
        return max(2.0, min(10.0, self.session_seconds))

    def on_change(self, callback: Callable[[], None]) -> None:
        """Have this called, in the loop, when the connection breaks, comes back, or the session has expired."""
        self._callbacks.append(callback)

    async def open(self) -> None:
        """Begin a session. ClusterUnavailableError: no server answers; ClusterError: none is to be trusted."""
        self._loop = asyncio.get_running_loop()
        self._client.add_listener(self._on_state)
        await asyncio.to_thread(self._client.start_async)
        until = time.monotonic() + self.answer_seconds
        while not self.is_connected:
            failed = self._handler.untrusted
            if len(failed) >= len({host.rpartition(":")[0] for host in self.ensemble.hosts}):
                raise untrusted(self.ensemble, next(iter(failed.values())))
            if time.monotonic() > until:
                raise self._unavailable("no answer")
            with suppress(TimeoutError):
                async with asyncio.timeout(0.05):
                    await self._connected.wait()
        await self.call(exists("/"), again=True)
        self.session_seconds = self._handler.granted_seconds or self.session_seconds

    async def close(self) -> None:
        """End the session, and with it all that it holds."""
        self._is_closed = True
        self._callbacks.clear()
        if self._restart is not None:
            await asyncio.wait([self._restart])
        await asyncio.to_thread(self._stop)

    async def call(self, *requests: Request, again: bool = False) -> Any:
        """Send requests, one behind the other, and return the answer to the last: see ``call_all``."""
        return (await self.call_all(*requests, again=again))[-1]

    async def call_all(self, *requests: Request, again: bool = False) -> list[Any]:
        """Send requests, one behind the other, and return their answers; the first error is raised.

        ``again``: they may be done twice, so that a lost connection is waited out. An error of ``errors.ANSWERS`` is
        raised as it is; ClusterUnavailableError: no answer, and whether it was done is not known.
        """
        until = time.monotonic() + self.answer_seconds
        while True:
            try:
                async with asyncio.timeout(until - time.monotonic()):
                    await self._connected.wait()
                    return await self._send(requests)
            except TimeoutError as error:
                raise self._unavailable("no answer") from error
            except ANSWERS:
                raise
            except KazooException as error:
                if not again or not isinstance(error, INTERRUPTED):
                    raise explained(error, self.ensemble) from error
            # The driver tells of a lost connection in its next callback.
            await asyncio.sleep(0.01)

    async def read(self, request: Request) -> Any:
        """Return an answer that is not older than this call: the server that is asked first catches up."""
        return await self.call(sync, request, again=True)

    async def read_all(self, *requests: Request) -> list[Any]:
        """As ``read``, for several."""
        return (await self.call_all(sync, *requests, again=True))[1:]

    async def read_now(self, request: Request) -> Any:
        """As ``read``, for one who knows what to do meanwhile: ClusterUnavailableError, at once, without a
        connection."""
        if not self.is_connected:
            raise self._unavailable("not connected")
        return await self.call(sync, request)

    async def sync(self) -> None:
        """Have the server that is asked catch up with the leader."""
        await self.call(sync, again=True)

    async def make_container(self, path: str) -> None:
        """Make a node that vanishes some time after its last child, unless it is there; its parent is."""
        with suppress(NodeExistsError):
            await self.call(create_container(path), again=True)

    async def make_path(self, path: str) -> None:
        """Make a node, and its parents, where they are missing. Parents that are there may be closed to us."""
        while await self.call(exists(path), again=True) is None:
            try:
                await self.call(create(path), again=True)
            except NodeExistsError:
                return
            except NoNodeError:
                await self.make_path(path.rpartition("/")[0])

    # ---- watches

    @contextmanager
    def watching(self, *paths: str) -> Iterator[asyncio.Event]:
        """Give an event that is set when one of these nodes may have changed, or the connection has.

        Reads inside take ``watch=connection.watch``: one function for all, which kazoo keeps once for a node.
        """
        event = asyncio.Event()
        for path in paths:
            self._watches.setdefault(path, set()).add(event)
        try:
            yield event
        finally:
            for path in paths:
                events = self._watches[path]
                events.discard(event)
                if not events:
                    del self._watches[path]

    def watch(self, event: WatchedEvent) -> None:
        """Take an event of a watch, in kazoo's thread."""
        self._tell(self._wake, event.path)

    def _wake(self, path: str | None) -> None:
        """``path``: None for all of them, as when a connection is lost: kazoo does not watch through that."""
        for watched in [path] if path is not None else list(self._watches):
            for event in self._watches.get(watched, ()):
                event.set()

    # ---- kazoo's threads

    def _unavailable(self, reason: str) -> ClusterUnavailableError:
        return unavailable(self.ensemble, str(self._handler.last_error or reason))

    async def _send(self, requests: tuple[Request, ...]) -> list[Any]:
        slots = self._slots
        await slots.acquire()
        left = len(requests)

        def end(_: asyncio.Future[Any]) -> None:
            # When kazoo is done with it, not when the caller has given up.
            nonlocal left
            left -= 1
            if not left:
                slots.release()

        answers = []
        for request in requests:
            answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            answer.add_done_callback(end)
            answer.add_done_callback(self._waiting.discard)
            self._waiting.add(answer)
            request(self._client).rawlink(lambda result, answer=answer: self._tell(_settle, answer, result))
            answers.append(answer)
        settled = asyncio.gather(*answers, return_exceptions=True)
        outcomes = await asyncio.shield(settled)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return outcomes

    def _on_state(self, state: str) -> None:
        """Take a change of state, in kazoo's thread."""
        client_id = self._client.client_id
        self._tell(self._change_state, state, client_id[0] if client_id else 0)

    def _change_state(self, state: str, session_id: int) -> None:
        if state == KazooState.CONNECTED:
            self.session_id = session_id or self.session_id
            self._handler.last_error = None
            self._connected.set()
        else:
            self._connected.clear()
            # kazoo does so itself, except for a call that came in this moment: that one would wait for a connection.
            for answer in self._waiting:
                if not answer.done():
                    answer.set_exception(ConnectionLoss())
            if state == KazooState.LOST:
                self.session_id = 0
                if self._client.client_state in _ENDED and not self._is_closed:
                    self._restart = asyncio.create_task(self._start_again())
        self._wake(None)
        for callback in list(self._callbacks):
            callback()

    async def _start_again(self) -> None:
        """Start kazoo again: an answer that it does not know, such as a newer server's error, ends its thread."""
        await asyncio.sleep(_RESTART_SECONDS)
        # Calls that the thread has left without an answer keep those that they have.
        self._slots = asyncio.Semaphore(_OUTSTANDING)
        if not self._is_closed:
            await asyncio.to_thread(self._client.start_async)

    def _tell(self, function: Callable[..., None], *arguments: Any) -> None:
        """Have a function called in the loop, from another thread."""
        assert self._loop is not None
        # The loop may have ended while a thread of kazoo was still at work.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)

    def _stop(self) -> None:
        with suppress(KazooException, OSError, AttributeError):
            self._client.stop()
        # A connection thread that hangs in the network still has its sockets.
        with suppress(Exception):
            self._client.close()


def _settle(answer: asyncio.Future[Any], result: Any) -> None:
    if answer.done():
        return
    if result.exception is not None:
        answer.set_exception(result.exception)
    else:
        answer.set_result(result.value)
