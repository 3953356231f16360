"""The HTTP engine: libcurl's multi interface on the running asyncio loop, without threads.

The loop tells libcurl which sockets are ready and when its timer is due; libcurl calls back with bytes.
One multi handle holds all transfers of a worker, so they share its connections, names and TLS sessions.
This is the hot path of a crawl: see bench/fetch_cost.py for what a request costs.
"""

from __future__ import annotations

import asyncio
import time

import pycurl

from skitter.errors import FetchError
from skitter.fetch.authorities import ca_file as find_ca_file
from skitter.fetch.contract import FetchRequest
from skitter.fetch.cookies import CookieJar
from skitter.fetch.guard import Guard
from skitter.fetch.headers import HeaderLines
from skitter.fetch.poller import MakePoller, Poller, SystemPoller
from skitter.fetch.transfer import Transfer
from skitter.model.page import Page
from skitter.settings import Fetch

_CLOSED = "the fetcher is closed"


class CurlFetcher:
    """A Fetcher. It may be made anywhere, and belongs to the loop that first fetches with it."""

    def __init__(
        self,
        settings: Fetch,
        *,
        ca_file: str | None = None,
        max_idle_connections: int = 256,
        rate_window_seconds: float = 10.0,
        poller: MakePoller = SystemPoller,
    ) -> None:
        self._settings = settings
        self._ca_file = ca_file or find_ca_file()
        self._rate_window_seconds = rate_window_seconds
        self._make_poller = poller
        self._poller: Poller | None = None
        self._header_lines = HeaderLines()
        self._guard = Guard(allow_private=settings.allow_private)
        self._jar = CookieJar() if settings.cookies else None
        self._multi = pycurl.CurlMulti()
        # Idle connections are kept for the next request of their host; each is a file descriptor.
        self._multi.setopt(pycurl.M_MAXCONNECTS, max_idle_connections)
        self._idle: list[Transfer] = []
        self._running: dict[pycurl.Curl, Transfer] = {}
        self._closed = False
        self._kicked = False
        self._due: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._sweep: asyncio.TimerHandle | None = None

    @property
    def in_flight(self) -> int:
        """Transfers that libcurl is working on."""
        return len(self._running)

    async def fetch(self, request: FetchRequest) -> Page:
        """See ``Fetcher.fetch``."""
        if self._closed:
            raise FetchError("protocol", _CLOSED)
        if self._poller is None:
            self._bind(asyncio.get_running_loop())
        if self._sweep is None and self._settings.min_bytes_per_second:
            self._start_sweep()
        transfer = self._idle.pop() if self._idle else self._new_transfer()
        try:
            future: asyncio.Future[tuple[int, str]] = self._loop.create_future()
            transfer.prepare(request, future)
            self._running[transfer.curl] = transfer
            self._multi.add_handle(transfer.curl)
            code, message = await future
            return transfer.finish(code, message)
        finally:
            # Still running: the caller was cancelled. Removing the handle closes its connection now.
            if self._running.pop(transfer.curl, None) is not None:
                self._multi.remove_handle(transfer.curl)
            self._put_back(transfer)

    async def close(self) -> None:
        """See ``Fetcher.close``. A name lookup under way may hold it up: libcurl waits for its threads here."""
        if self._closed:
            return
        self._closed = True
        for timer in (self._timer, self._sweep):
            if timer is not None:
                timer.cancel()
        for transfer in list(self._running.values()):
            self._fail(transfer, FetchError("protocol", _CLOSED))
        self._multi.close()
        if self._poller is not None:
            self._poller.close()
        for transfer in self._idle:
            transfer.curl.close()

    def _put_back(self, transfer: Transfer) -> None:
        if self._closed:
            transfer.curl.close()
        else:
            transfer.release()
            self._idle.append(transfer)

    def _new_transfer(self) -> Transfer:
        return Transfer(
            self._settings,
            guard=self._guard,
            jar=self._jar,
            ca_file=self._ca_file,
            header_lines=self._header_lines,
        )

    def _bind(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._poller = self._make_poller(loop, self._multi.socket_action, self._collect)
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._poller.watch)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._set_timer)

    # -- libcurl's timer

    def _set_timer(self, milliseconds: int) -> None:
        """M_TIMERFUNCTION: when libcurl wants to be woken next. It says each time only once."""
        if milliseconds == 0:
            # Work that waits, above all the start of a new transfer. It is done even if libcurl names a later
            # time before the loop comes round: that one is for other transfers, and this start would be lost.
            if not self._kicked and not self._closed:
                self._kicked = True
                self._loop.call_soon(self._kick)
        elif milliseconds < 0:
            self._due = None
        else:
            self._due = time.monotonic() + milliseconds / 1000
            # A timer that fires too early costs less than a new one for every request: ``_fire`` looks again.
            if self._timer is None or self._timer_at > self._due:
                self._arm(self._due)

    def _arm(self, due: float) -> None:
        if self._closed:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = due
        self._timer = self._loop.call_later(max(due - time.monotonic(), 0.001), self._fire)

    def _fire(self) -> None:
        self._timer = None
        if self._due is None:
            return
        if time.monotonic() < self._due:
            self._arm(self._due)
            return
        self._due = None
        self._kick()
        self._wake_again()

    def _wake_again(self) -> None:
        if self._due is None and self._running:
            # Every transfer has a deadline, so a time is missing: libcurl's clock was a trifle behind ours,
            # nothing was due for it, and it will not say so again.
            self._due = time.monotonic() + 0.01
            self._arm(self._due)

    def _kick(self) -> None:
        self._kicked = False
        if not self._closed:
            self._multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
            self._collect()

    # -- the ends of transfers

    def _collect(self) -> None:
        _, done, failed = self._multi.info_read()
        for curl in done:
            self._end(curl, 0, "")
        for curl, code, message in failed:
            self._end(curl, code, message)

    def _end(self, curl: pycurl.Curl, code: int, message: str) -> None:
        future = self._running.pop(curl).future
        self._multi.remove_handle(curl)
        if not future.done():  # else its caller was cancelled in this very step of the loop
            future.set_result((code, message))

    def _fail(self, transfer: Transfer, error: FetchError) -> None:
        del self._running[transfer.curl]
        self._multi.remove_handle(transfer.curl)
        if not transfer.future.done():
            transfer.future.set_exception(error)

    # -- the minimum rate

    def _start_sweep(self) -> None:
        # Not libcurl's LOW_SPEED_TIME: that also counts the wait for the first byte, and would cut off a
        # server that thinks for longer than the window, however long the total timeout is.
        self._sweep = self._loop.call_later(self._rate_window_seconds / 4, self._sweep_slow)

    def _sweep_slow(self) -> None:
        self._sweep = None
        now = time.monotonic()
        for transfer in list(self._running.values()):
            if transfer.slow(now, self._rate_window_seconds):
                self._fail(transfer, FetchError("timeout", transfer.slow_message()))
        if self._running:
            self._start_sweep()
