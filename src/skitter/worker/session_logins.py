"""Logins of sessions: a worker that is asked for one runs the spider's ``login`` and hands in its requests.

Whichever worker is first begins the login; the frontier counts no other for the same generation.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from typing import Any

from skitter.concurrency import wait_within
from skitter.frontier.contract import WorkSource
from skitter.model.request import Entry, Request
from skitter.model.session import LOGIN_NEED, POOL, Session, SessionLogin
from skitter.model.url import absolute
from skitter.observe import events
from skitter.worker.callbacks import Callbacks, is_of_the_callback
from skitter.worker.page_yield import LinkContext

MAX_REQUESTS = 100
"""Of one login."""
log = logging.getLogger("skitter.worker")


class SessionLogins:
    """The logins that a worker was asked for."""

    def __init__(
        self,
        worker_id: str,
        *,
        source: WorkSource,
        rules: LinkContext,
        callbacks: Callbacks,
        seconds: float,
        on_begun: Callable[[], None] = lambda: None,
    ) -> None:
        """``seconds``: how long ``login`` may take. ``on_begun``: called when its requests are queued."""
        self._on_begun = on_begun
        self._worker_id = worker_id
        self._source = source
        self._rules = rules
        self._callbacks = callbacks
        self._seconds = seconds
        self._running: set[asyncio.Task[None]] = set()

    def begin(self, logins: Iterable[SessionLogin]) -> None:
        """Log these in, beside everything else. A store that fails is told by the worker's own calls."""
        for login in logins:
            task = asyncio.get_running_loop().create_task(self._log_in(login))
            self._running.add(task)
            task.add_done_callback(self._ended)

    async def close(self) -> None:
        """Break off what is under way; another worker is asked after a while."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("a login could not be started: %s: %s", type(error).__name__, error)

    async def _log_in(self, login: SessionLogin) -> None:
        entries: list[Entry] = []
        try:
            entries = await wait_within(self._entries(login), self._seconds, "login()")
        except BaseException as error:
            if not is_of_the_callback(error):
                raise
            text = self._callbacks.described(error)
            events.emit(events.LOGIN_FAILED(worker=self._worker_id, session=login.name, traceback=text))
            await self._source.log_in(login, [], failed=True)
            return
        if await self._source.log_in(login, entries):
            self._on_begun()
            events.emit(events.LOGIN_BEGUN(worker=self._worker_id, session=login.name, number=login.generation))

    async def _entries(self, login: SessionLogin) -> list[Entry]:
        prefix, _, number = login.name.rpartition("-")
        of_pool = int(number) if prefix == POOL and number.isdecimal() else 0
        session = Session(name=login.name, number=of_pool, generation=login.generation)
        login_method: Any = self._rules.spider.login  # type: ignore[attr-defined]  # it is asked for spiders that have one
        outputs: Any = login_method(session)
        if isinstance(outputs, Awaitable):
            outputs = await outputs
        if isinstance(outputs, Request):
            outputs = [outputs]
        found: list[Entry] = []
        if isinstance(outputs, AsyncIterable):
            async for output in outputs:
                found.append(self._entry(login, output, len(found)))
        else:
            found = [self._entry(login, output, place) for place, output in enumerate(outputs or ())]
        if len(found) > MAX_REQUESTS:
            raise ValueError(f"login() may yield at most {MAX_REQUESTS} requests, not {len(found)}")
        return found

    def _entry(self, login: SessionLogin, output: Any, place: int) -> Entry:
        if not isinstance(output, Request):
            raise TypeError(f"login() must yield Requests, not {type(output).__name__}: {output!r:.100}")
        rules = self._rules
        request = output.replace(
            url=absolute(output.url),
            callback=None if output.callback is None else rules.name_of(output, "callback"),
            errback=None if output.errback is None else rules.name_of(output, "errback"),
            session=login.name,
            need=LOGIN_NEED + login.name,
            dont_filter=True,
        )
        # Another generation's requests are others.
        parent = hashlib.blake2b(f"{login.name} {login.generation}".encode(), digest_size=7).digest()
        return rules.fingerprinter.entry(request, int.from_bytes(parent, "big"), place)
