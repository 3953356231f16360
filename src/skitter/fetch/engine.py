"""The HTTP engine: libcurl's multi interface on the running asyncio loop.

The loop tells libcurl which sockets are ready and when its timer is due; libcurl calls back with bytes.
One multi handle holds all transfers of a worker, so they share its connections, names and TLS sessions.
This is the hot path of a crawl: see bench/fetch_cost.py for what a request costs.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import time
from collections.abc import Sequence

import msgspec
import pycurl

from skitter.errors import FetchError, SettingsError
from skitter.fetch.body import Bodies
from skitter.fetch.ca_bundle import ca_file as find_ca_file
from skitter.fetch.contract import FetchRequest
from skitter.fetch.dns_lookups import MAX_LOOKUPS, DnsLookups, origin_of
from skitter.fetch.header_lines import HeaderLines, SentHeaders
from skitter.fetch.malloc import tune_malloc
from skitter.fetch.network_guard import Guard
from skitter.fetch.poller import MakePoller, Poller, SystemPoller
from skitter.fetch.proxy import Proxy, objection, read_proxy
from skitter.fetch.slow_transfers import SlowTransfers
from skitter.fetch.stuck_call_watchdog import Call, Watchdog
from skitter.fetch.transfer import Transfer
from skitter.model.page import Page
from skitter.model.url import host_name, port
from skitter.settings import Fetch

SPARE_FILES = 256
"""For the store, outputs and what else a process opens."""
IDLE_CONNECTION_BYTES = 81_920
"""Measured, of TLS; one of http takes 3,000."""
REST_SECONDS = 0.25
REST_CALLS = 4
"""Of libcurl, for all that rest, each time; one reads some 100 KB of a connection."""
SHORT_SECONDS = 0.05
"""Maximum wait that is not deducted from a fetch's timeout."""
UNLIMITED = 2**31
PROXY_WARNING_SECONDS = 60.0
MAX_PROXIES_KNOWN = 2_000
"""Proxies that requests have named; then they are read again."""
_CLOSED = "the fetcher is closed"
log = logging.getLogger("skitter.fetch")


class CurlFetcher:
    """A Fetcher. It may be made anywhere, and belongs to the loop that first fetches with it."""

    # More attributes than a class without slots has quick access to.
    __slots__ = (
        "_bodies",
        "_ca_file",
        "_call",
        "_closed",
        "_due",
        "_guard",
        "_header_lines",
        "_idle",
        "_kicked",
        "_known",
        "_lookups",
        "_loop",
        "_make_poller",
        "_max_aside",
        "_multi",
        "_next_warning_at",
        "_poller",
        "_proxies",
        "_proxy",
        "_rate_window_seconds",
        "_rest_timer",
        "_resting",
        "_running",
        "_sent_headers",
        "_settings",
        "_slow_transfers",
        "_sweep",
        "_timer",
        "_timer_at",
        "_unwatched",
        "_watchdog",
    )

    def __init__(
        self,
        settings: Fetch,
        *,
        ca_file: str | None = None,
        proxy: str = "",
        max_buffered_bytes: int = 16_777_216,
        max_idle_bytes: int = 134_217_728,
        rate_window_seconds: float = 10.0,
        poller: MakePoller = SystemPoller,
    ) -> None:
        tune_malloc()
        self._settings = settings
        self._proxy = read_proxy(proxy)
        self._proxies: dict[str, Proxy] = {}
        self._ca_file = ca_file or find_ca_file()
        self._rate_window_seconds = rate_window_seconds
        self._make_poller = poller
        self._poller: Poller | None = None
        self._header_lines = HeaderLines()
        self._sent_headers = SentHeaders(settings)
        self._call = Call()
        self._guard = Guard(allow_private=settings.allow_private)
        self._running: dict[pycurl.Curl, Transfer] = {}
        self._bodies = Bodies(self._running, max_bytes=max_buffered_bytes, max_ratio=settings.max_ratio)
        self._multi = pycurl.CurlMulti()
        # The limit of open files is shared: a quarter for connections that are kept for the next request of their host,
        # an eighth for name lookups, and the rest for slow transfers. Each has a socket.
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        files = UNLIMITED if files < 0 else files
        max_connections = max(1, min(max_idle_bytes // IDLE_CONNECTION_BYTES, files // 4))
        self._multi.setopt(pycurl.M_MAXCONNECTS, max_connections)
        self._idle: list[Transfer] = []
        self._slow_transfers = SlowTransfers()
        max_lookups = min(MAX_LOOKUPS, files // 8)
        self._lookups = DnsLookups(max_lookups=max_lookups)
        self._known = self._lookups.known
        self._resting: list[Transfer] = []
        self._unwatched: set[int] = set()
        self._max_aside = max(0, files - max_connections - max_lookups - SPARE_FILES)
        self._next_warning_at = 0.0
        self._closed = False
        self._kicked = False
        self._due: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._sweep: asyncio.TimerHandle | None = None
        self._rest_timer: asyncio.TimerHandle | None = None

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
        addresses: Sequence[str] = ()
        proxy = self._proxy_of(request) if request.proxy else self._proxy
        if proxy is not None:
            addresses = await self._through_proxy(request, proxy)
        elif origin_of(request.url) not in self._known:
            request, addresses = await self._look_up(request)
        transfer = self._idle.pop() if self._idle else self._new_transfer()
        try:
            future: asyncio.Future[tuple[int, str]] = self._loop.create_future()
            transfer.prepare(request, future, addresses, proxy)
            if self._slow_transfers.silent:
                self._slow_transfers.begun(transfer)
            self._running[transfer.curl] = transfer
            self._multi.add_handle(transfer.curl)
            code, message = await future
            try:
                page = transfer.finish(code, message)
            except FetchError as error:
                if error.error_class == "proxy" and proxy is self._proxy:
                    self._warn_of_proxy(error)
                elif error.error_class == "connect" and proxy is None:
                    self._lookups.forget(origin_of(request.url))
                raise
            self._slow_transfers.answered(transfer, page.seconds)
            return page
        finally:
            # Still running: the caller was cancelled. Removing the handle closes its connection now.
            if self._running.pop(transfer.curl, None) is not None:
                self._multi.remove_handle(transfer.curl)
            if transfer.aside:
                self._slow_transfers.ended(transfer)
            self._put_back(transfer)

    def slow_transfers(self, most: int) -> int:
        """See ``SlowTransferLimit.slow_transfers``."""
        count, surplus = self._slow_transfers.look(self._running.values(), min(most, self._max_aside))
        waiting = self._lookups.waiting if most else 0
        if count + waiting > most:
            error = FetchError("slow", "too many name servers do not answer")
            self._lookups.drop_waiting(count + waiting - most, error)
        for transfer in surplus:
            self._fail(transfer, FetchError("slow", transfer.surplus_message()))
            self._slow_transfers.ended(transfer)
        if count and self._rest_timer is None:
            self._rest_timer = self._loop.call_later(REST_SECONDS, self._let_rest)
        return min(count + waiting, most)

    async def close(self) -> None:
        """See ``Fetcher.close``."""
        if self._closed:
            return
        self._closed = True
        for timer in (self._timer, self._sweep, self._rest_timer):
            if timer is not None:
                timer.cancel()
        self._lookups.close(FetchError("protocol", _CLOSED))
        for transfer in list(self._running.values()):
            self._fail(transfer, FetchError("protocol", _CLOSED))
        self._multi.close()
        if self._poller is not None:
            self._watchdog.stop()
            self._poller.close()
        for transfer in self._idle:
            transfer.curl.close()

    async def _look_up(self, request: FetchRequest) -> tuple[FetchRequest, list[str]]:
        """Look up the name; return the request with the time that is left, and the addresses."""
        if request.url.startswith("https:"):
            # Not before: malloc is slower in a process of several threads, by 1 % of a small page.
            self._watchdog.start()
        began = time.monotonic()
        total = request.timeout_seconds or self._settings.timeout_seconds
        connecting = min(total, request.connect_timeout_seconds or self._settings.connect_timeout_seconds)
        addresses: list[str] = []
        # libcurl knows localhost by itself, and refuses other schemes.
        if request.url.startswith("http") and not f".{host_name(request.url)}".rstrip(".").endswith(".localhost"):
            addresses = await self._lookups.addresses(request.url, connecting)
        if self._closed:  # while it waited
            raise FetchError("protocol", _CLOSED)
        waited = time.monotonic() - began
        if waited > SHORT_SECONDS:
            left = {"timeout_seconds": total - waited, "connect_timeout_seconds": connecting - waited}
            request = msgspec.structs.replace(request, **left)
        self._lookups.remember(origin_of(request.url))
        return request, addresses

    def _proxy_of(self, request: FetchRequest) -> Proxy:
        """The proxy that a request names: the same object each time, so that handles are made ready for it once."""
        proxy = self._proxies.get(request.proxy)
        if proxy is None:
            try:
                proxy = read_proxy(request.proxy)
            except SettingsError as error:
                raise FetchError("proxy", f"{error}: {request.url}") from error
            assert proxy is not None, "it is not empty"
            if len(self._proxies) >= MAX_PROXIES_KNOWN:
                self._proxies.clear()
            self._proxies[request.proxy] = proxy
            self._watchdog.start()
        return proxy

    async def _through_proxy(self, request: FetchRequest, proxy: Proxy) -> list[str]:
        """What can be checked before a proxy is asked; the address to ask it for, where names are resolved here."""
        if request.trusted:
            return []
        found = objection(self._guard, request.url)
        addresses: list[str] = []
        if found is None and proxy.resolves_here:
            looked_up = await self._lookups.addresses(request.url, self._settings.connect_timeout_seconds)
            addresses = proxy.usable(looked_up)
            # Of an address in the URL nothing is looked up.
            if looked_up and not addresses:
                raise FetchError("dns", f"no address that {proxy.scheme} can connect to: {request.url}")
            objections = [self._guard.objection(address, port(request.url)) for address in addresses]
            found = next(iter(objections), None) if all(objections) else None
            addresses = [address for address, wrong in zip(addresses, objections, strict=True) if not wrong][:1]
        if found is not None:
            raise FetchError("guard", f"refused to connect to {found}: {request.url}")
        if self._closed:  # while the name was looked up
            raise FetchError("protocol", _CLOSED)
        return addresses

    def _warn_of_proxy(self, error: FetchError) -> None:
        """Log a failure of the proxy, which holds up the whole crawl."""
        now = time.monotonic()
        if now >= self._next_warning_at:
            self._next_warning_at = now + PROXY_WARNING_SECONDS
            log.warning("%s", error)

    def _put_back(self, transfer: Transfer) -> None:
        if self._closed:
            transfer.curl.close()
        else:
            transfer.release()
            self._idle.append(transfer)
            if self._bodies.grown:
                # Others waited for what this one had.
                self._look_at_bodies()

    def _new_transfer(self) -> Transfer:
        return Transfer(
            self._settings,
            guard=self._guard,
            bodies=self._bodies,
            ca_file=self._ca_file,
            header_lines=self._header_lines,
            sent_headers=self._sent_headers,
            call=self._call,
            proxy=self._proxy,
        )

    def _bind(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        poller = self._poller = self._make_poller(loop, self._act, self._collect)
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._poller.watch)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._set_timer)
        self._watchdog = Watchdog(self._call, lambda: {*poller.sockets(), *self._unwatched})
        if self._proxy is not None:
            self._watchdog.start()

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
            self._act(pycurl.SOCKET_TIMEOUT, 0)
            self._collect()

    # -- the bodies

    def _act(self, fd: int, events: int) -> None:
        call = self._call
        if call.is_noted:
            call.number += 1
            call.is_running = True
            try:
                self._multi.socket_action(fd, events)
            finally:
                call.is_running = False
        else:
            self._multi.socket_action(fd, events)
        if self._bodies.grown:
            # At once, before another socket is read from: one step of the loop may have one for every slot.
            self._look_at_bodies()

    def _look_at_bodies(self) -> None:
        for body in self._bodies.to_end():
            transfer = self._running[body.curl]
            self._fail(transfer, transfer.refusal())
            transfer.reset()
        self._bodies.share()

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

    # -- silent hosts

    def _let_rest(self) -> None:
        """A silent host is read four times a second, however often it says a little: a byte costs as much as a page.

        Not one that sends a file: it would be held up.
        """
        assert self._poller is not None
        # libcurl has what is paused not watched, and reads from it before it asks for that again. Only from here to the
        # end of these calls: a descriptor that is kept for longer may be another socket's by then.
        self._unwatched = {transfer.descriptor() for transfer in self._resting if transfer.curl in self._running}
        try:
            for transfer in self._resting:
                transfer.rest(False)
            resting = {transfer for transfer in self._running.values() if self._slow_transfers.is_silent(transfer)}
            self._poller.rest({transfer.descriptor() for transfer in resting if transfer.trickles()})
            if self._resting:
                # What libcurl has read already, no socket tells of.
                for _ in range(REST_CALLS):
                    self._act(pycurl.SOCKET_TIMEOUT, 0)
                self._collect()
        finally:
            self._unwatched = set()
        # Not watching the socket is not enough: of one that always has more, libcurl does not wait to be told.
        self._resting = [transfer for transfer in self._running.values() if transfer in resting and transfer.trickles()]
        for transfer in self._resting:
            transfer.rest(True)
        again = self._slow_transfers.count > 0
        self._rest_timer = self._loop.call_later(REST_SECONDS, self._let_rest) if again else None

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
