"""The browsers of one worker: pages at a time, age, memory, crashes, and what a lost browser costs.

One browser serves, with up to ``browser_pages`` pages in contexts of their own, and one page more that waits ready: to
open it takes longer than a host's start window. Browsers that are too old, too large or used up serve the pages they
have, and are closed. What a page has lost is counted here: after two browsers it is rendered alone, and after four
more, lost with it alone, it has failed (``policy.lost_leases``).
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import shutil
import signal
import tempfile
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

from playwright.async_api import Error, Playwright, async_playwright

from skitter.concurrency import wait_shielded
from skitter.errors import BrowserLostError, FetchError, LateError
from skitter.fetch.browser.abandoned_calls import abandon, within
from skitter.fetch.browser.browser_process import BrowserProcess
from skitter.fetch.browser.guarded_proxy import Network, PageProxy
from skitter.fetch.browser.page_render import PageRender, ReadyPage, make_ready
from skitter.fetch.browser.upstream import Upstream
from skitter.fetch.contract import FetchRequest
from skitter.model.page import Page
from skitter.model.secrets import shown_url
from skitter.observe import events
from skitter.policy.lost_leases import is_fatal, is_suspect
from skitter.settings import Settings

OPEN_SECONDS = 60.0
"""A browser that opens no page within this time hangs."""
CLOSE_SECONDS = 15.0
MEMORY_LOOK_SECONDS = 2.0
KILL_SHARE = 1.25
"""Of ``browser_max_bytes``: then a browser is not closed but killed."""
MAX_REMEMBERED = 1_000
"""Pages whose losses are remembered."""
START_PAUSES_SECONDS = (1.0, 5.0, 15.0, 60.0)
"""How long nothing is rendered after a browser could not be started."""
FAILURES_BEFORE_BROKEN = 3
"""Starts that failed in a row, after which this worker does not count as one that can render."""
DRIVER_GONE = "Connection closed"
"""What Playwright says when its driver has ended."""
SUSPECT_CLASSES = frozenset({"timeout", "browser", "protocol"})
"""Classes of failures that a browser that has crashed or hangs looks like."""
CRASH_SECONDS = 0.3
FOLDER_PREFIX = "skitter-browser"
log = logging.getLogger("skitter.fetch")


class BrowserPool:
    """Renders requests. It belongs to the loop that first uses it."""

    def __init__(
        self, settings: Settings, program: str, network: Network, tell_room: Callable[[bool, bool], None]
    ) -> None:
        """``tell_room``: see ``RendersPages.watch_room``."""
        self._settings = settings
        self._run = settings.run
        self._program = program
        self._network = network
        self._tell_room = tell_room
        self._driver: asyncio.Task[Playwright] | None = None
        self._driver_pid: int | None = None
        self._folder: Path | None = None
        self._numbers = itertools.count(1)
        self._refusing = PageProxy(network)
        self._browser: BrowserProcess | None = None
        self._browsers: set[BrowserProcess] = set()
        self._spare: tuple[BrowserProcess, ReadyPage] | None = None
        self._losses: OrderedDict[tuple[str, bytes], tuple[int, int]] = OrderedDict()
        self._begin = asyncio.Lock()
        self._room = asyncio.Condition()
        self._wanted = 0
        self._in_use = 0
        self._start_failures = 0
        self._pause_until = 0.0
        self._told = (True, True)
        self._tasks: set[asyncio.Task[None]] = set()
        self._watch: asyncio.Task[None] | None = None
        self._is_closed = False

    # ---- one page

    async def render(self, request: FetchRequest, upstream: Upstream | None) -> Page:
        """The page. Raises FetchError, BrowserLostError, LateError."""
        key = (request.url, repr(request.actions).encode())
        alone = is_suspect(self._losses.get(key, (0, 0))[0])
        async with self._slot(request, alone=alone):
            browser, ready = await self._take(request)
            is_done = False
            try:
                page = await self._rendered(browser, ready, request, upstream)
                self._losses.pop(key, None)
                is_done = True
                return page
            except BrowserLostError as error:
                raise self._counted(key, error, alone=alone) from error.__cause__
            finally:
                browser.in_use -= 1
                self._later(self._put_away(browser, ready, look=not is_done))

    async def _rendered(
        self, browser: BrowserProcess, ready: ReadyPage, request: FetchRequest, upstream: Upstream | None
    ) -> Page:
        work = asyncio.create_task(PageRender(ready, request, self._settings, upstream).run())
        try:
            watched: list[asyncio.Future[Any]] = [work, browser.lost, ready.crashed]
            await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return work.result()
        except (Error, FetchError) as error:
            if await self._is_lost(browser, ready, error):
                raise BrowserLostError(f"the browser was lost: {shown_url(request.url)}") from error
            if isinstance(error, FetchError):
                raise
            told = error.message.partition("\n")[0][:200]
            raise FetchError("browser", f"the browser failed: {told}: {shown_url(request.url)}") from error
        else:
            reason = browser.lost.result() if browser.lost.done() else ready.crashed.result()
            raise BrowserLostError(f"the browser was lost ({reason}): {shown_url(request.url)}")
        finally:
            if not work.done():
                work.cancel()
                await asyncio.wait([work], timeout=1)
            if work.done() and not work.cancelled():
                work.exception()

    async def _is_lost(self, browser: BrowserProcess, ready: ReadyPage, error: Error | FetchError) -> bool:
        """Whether a page failed because its browser, or its process, is gone or hangs."""
        if isinstance(error, FetchError) and error.error_class not in SUSPECT_CLASSES:
            return False
        # Of a process that was killed the page hears first, and the browser a moment later.
        await asyncio.wait([browser.lost, ready.crashed], timeout=CRASH_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if browser.is_alive and not ready.crashed.done() and not await browser.answers():
            await browser.kill("it does not answer")
        return not browser.is_alive or ready.crashed.done()

    def _counted(self, key: tuple[str, bytes], error: BrowserLostError, *, alone: bool) -> FetchError:
        losses, losses_alone = self._losses.pop(key, (0, 0))
        losses, losses_alone = losses + 1, losses_alone + alone
        self._losses[key] = (losses, losses_alone)
        if len(self._losses) > MAX_REMEMBERED:
            self._losses.popitem(last=False)
        if is_fatal(losses_alone):
            times = f"lost its browser {losses} times, the last ones with this page alone"
            return FetchError("browser", f"{times}: {shown_url(key[0])}")
        return error

    # ---- room

    @contextlib.asynccontextmanager
    async def _slot(self, request: FetchRequest, *, alone: bool) -> AsyncIterator[None]:
        """Hold one of the pages at a time; one that is rendered alone waits until there is no other."""
        self._wanted += 1
        self._look_at_room()
        try:
            left = None if request.start_by is None else max(0.0, request.start_by - time.monotonic())
            try:
                async with asyncio.timeout(left), self._room:
                    await self._room.wait_for(lambda: self._may_begin(alone=alone))
                    self._in_use += self._run.browser_pages if alone else 1
            except TimeoutError:
                raise LateError("too late to be rendered") from None
            try:
                yield
            finally:
                self._in_use -= self._run.browser_pages if alone else 1
                async with self._room:
                    self._room.notify_all()
        finally:
            self._wanted -= 1
            self._look_at_room()

    def _may_begin(self, *, alone: bool) -> bool:
        if self._is_closed:
            raise FetchError("protocol", "the fetcher is closed")
        return not self._in_use if alone else self._in_use < self._run.browser_pages

    def _look_at_room(self) -> None:
        works = self._start_failures < FAILURES_BEFORE_BROKEN
        told = (self._wanted < self._run.browser_pages and not self._is_pausing, works)
        if told != self._told:
            self._told = told
            self._tell_room(*told)

    @property
    def _is_pausing(self) -> bool:
        return time.monotonic() < self._pause_until

    # ---- browsers and pages

    async def _take(self, request: FetchRequest) -> tuple[BrowserProcess, ReadyPage]:
        """A page that is ready, and the browser that it is in."""
        taking = asyncio.create_task(self._taken())
        left = None if request.start_by is None else max(0.0, request.start_by - time.monotonic())
        await asyncio.wait([taking], timeout=left)
        if taking.done():
            return taking.result()
        # The next one that comes finds it.
        taking.add_done_callback(self._keep)
        raise LateError("too late to be rendered")

    def _keep(self, taking: asyncio.Task[tuple[BrowserProcess, ReadyPage]]) -> None:
        if taking.cancelled() or taking.exception() is not None:
            return
        browser, ready = taking.result()
        browser.in_use -= 1
        browser.served -= 1
        if self._spare is None and not self._is_closed and not browser.is_retired:
            self._spare = browser, ready
        else:
            self._later(self._put_away(browser, ready))

    async def _taken(self) -> tuple[BrowserProcess, ReadyPage]:
        spare, self._spare = self._spare, None
        if spare is not None and spare[0].is_alive and not spare[0].is_retired and not spare[1].crashed.done():
            browser, ready = spare
            _begin_page(browser)
        else:
            if spare is not None:
                self._later(self._put_away(*spare))
            browser = await self._serving()
            # Before the page is open: a browser that is retired meanwhile must not be closed under it.
            _begin_page(browser)
            try:
                ready = await self._open_page(browser)
            except BaseException:
                browser.in_use -= 1
                raise
        self._later(self._make_spare())
        return browser, ready

    async def _make_spare(self) -> None:
        with contextlib.suppress(FetchError):
            browser = await self._serving()
            ready = await self._open_page(browser)
            if self._spare is None and not self._is_closed and browser.is_alive:
                self._spare = browser, ready
            else:
                await self._put_away(browser, ready)

    async def _open_page(self, browser: BrowserProcess) -> ReadyPage:
        proxy = PageProxy(self._network)
        await proxy.listen()
        fetch = self._settings.fetch
        try:
            opening = browser.new_context(proxy_port=proxy.port, user_agent=fetch.agent, verify_tls=fetch.verify_tls)
            context = await within(OPEN_SECONDS, opening, browser.lost)
            return await within(OPEN_SECONDS, make_ready(context, proxy, self._settings.browser.blocked), browser.lost)
        except (Error, TimeoutError) as error:
            await proxy.close()
            await browser.kill("it cannot open a page")
            raise BrowserLostError(f"the browser cannot open a page: {error}") from error

    async def _serving(self) -> BrowserProcess:
        """The browser that takes new pages; a new one where it is not there or has had its time."""
        async with self._begin:
            browser = self._browser
            if browser is not None:
                if browser.served >= self._run.browser_max_pages:
                    self._retire(browser, "it has reached browser_max_pages")
                elif browser.age_seconds > self._run.browser_max_seconds:
                    self._retire(browser, "it has reached browser_max_seconds")
                if browser.is_alive and not browser.is_retired:
                    return browser
            self._browser = await self._started()
            return self._browser

    async def _started(self) -> BrowserProcess:
        if self._is_closed:
            raise FetchError("protocol", "the fetcher is closed")
        if self._is_pausing:
            raise BrowserLostError("no browser could be started a moment ago")
        folder = await self._home() / str(next(self._numbers))
        began = time.monotonic()
        try:
            browser = await BrowserProcess.start(
                await self._playwright(),
                self._program,
                folder,
                refusing_port=self._refusing.port,
                sandbox=self._run.browser_sandbox,
                on_end=self._ended,
            )
        except BrowserLostError as error:
            pause = START_PAUSES_SECONDS[min(self._start_failures, len(START_PAUSES_SECONDS) - 1)]
            self._start_failures += 1
            self._pause_until = time.monotonic() + pause
            self._look_at_room()
            asyncio.get_running_loop().call_later(pause + 0.001, self._look_at_room)
            if DRIVER_GONE in str(error.__cause__):
                self._driver_lost()
            events.emit(events.BROWSER_FAILED(reason=str(error), seconds=pause))
            raise
        self._start_failures = 0
        self._look_at_room()
        self._browsers.add(browser)
        self._driver_pid = browser.driver_pid
        events.emit(events.BROWSER_STARTED(program=self._program, seconds=round(time.monotonic() - began, 3)))
        if self._watch is None:
            self._watch = asyncio.create_task(self._watch_memory())
        return browser

    def _driver_lost(self) -> None:
        """The next browser has another driver."""
        if self._driver is not None:
            driver, self._driver = self._driver, None
            driver_pid, self._driver_pid = self._driver_pid, None
            self._later(_stopped(driver, driver_pid))

    async def _home(self) -> Path:
        """The folder of all browsers; the proxy that refuses is started with it."""
        if self._folder is None:
            await asyncio.to_thread(_remove_stale_folders)
            prefix = f"{FOLDER_PREFIX}-{os.getuid()}-{os.getpid()}-"
            self._folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix=prefix))
            await self._refusing.listen()
        return self._folder

    async def _playwright(self) -> Playwright:
        """Playwright with its driver, which is started if none runs. Raises BrowserLostError."""
        if self._driver is None:
            # A task of its own: close() ends the driver also when the page that began it is given up before it runs.
            self._driver = asyncio.create_task(async_playwright().start())
        try:
            return await wait_shielded(self._driver)
        except Exception as error:
            self._driver = None
            raise BrowserLostError(f"Playwright's driver could not be started: {error}") from error

    def _retire(self, browser: BrowserProcess, reason: str) -> None:
        if browser.is_retired or not browser.is_alive:
            return
        browser.is_retired = True
        events.emit(events.BROWSER_RETIRED(reason=reason, pages=browser.served, seconds=round(browser.age_seconds, 1)))
        spare = self._spare
        if spare is not None and spare[0] is browser:
            self._spare = None
            self._later(spare[1].proxy.close())
        self._close_if_idle(browser)

    def _close_if_idle(self, browser: BrowserProcess) -> None:
        if browser.is_retired and not browser.in_use and browser.is_alive:
            self._later(browser.close())

    def _ended(self, browser: BrowserProcess) -> None:
        self._browsers.discard(browser)
        if not browser.is_retired and not self._is_closed:
            reason = browser.lost.result()
            events.emit(events.BROWSER_LOST(reason=reason, pages=browser.in_use, served=browser.served))
            # Its folder is removed by its guardian, unless that was killed as well.
            self._later(browser.kill(reason))

    async def _put_away(self, browser: BrowserProcess, ready: ReadyPage, *, look: bool = False) -> None:
        closed = await ready.close(CLOSE_SECONDS, browser.lost)
        if browser.is_alive and (not closed or (look and not await browser.answers())):
            await browser.kill("it does not answer")
        self._close_if_idle(browser)

    async def _watch_memory(self) -> None:
        limit = self._run.browser_max_bytes
        while True:
            await asyncio.sleep(MEMORY_LOOK_SECONDS)
            for browser in list(self._browsers):
                size = await asyncio.to_thread(browser.memory_bytes)
                if size > limit * KILL_SHARE:
                    await browser.kill(f"it uses {size} bytes of memory")
                elif size > limit:
                    self._retire(browser, f"it uses {size} bytes of memory")

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End all browsers, the driver and all proxies."""
        self._is_closed = True
        if self._watch is not None:
            self._watch.cancel()
        async with self._room:
            self._room.notify_all()
        if self._spare is not None:
            spare, self._spare = self._spare, None
            await self._put_away(*spare)
        await asyncio.gather(*(browser.close() for browser in list(self._browsers)))
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=CLOSE_SECONDS)
        if self._driver is not None:
            await _stopped(self._driver, self._driver_pid)
        await self._refusing.close()
        if self._folder is not None:
            await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)


def _begin_page(browser: BrowserProcess) -> None:
    browser.in_use += 1
    browser.served += 1


async def _stopped(driver: asyncio.Task[Playwright], driver_pid: int | None) -> None:
    """End the driver. One that does not end when it is asked is killed: the loop may be closed next."""
    stopping = asyncio.create_task(_stop(driver))
    abandon(stopping)
    await asyncio.wait([stopping], timeout=CLOSE_SECONDS)
    if not stopping.done() and driver_pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(driver_pid, signal.SIGKILL)
        await asyncio.wait([stopping], timeout=CLOSE_SECONDS)


async def _stop(driver: asyncio.Task[Playwright]) -> None:
    await (await driver).stop()


def _remove_stale_folders() -> None:
    """Remove the folders of workers that were killed together with the guardians of their browsers."""
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}-{os.getuid()}-*-*"):
        pid = folder.name.split("-")[3]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists() and folder.lstat().st_uid == os.getuid():
            shutil.rmtree(folder, ignore_errors=True)
