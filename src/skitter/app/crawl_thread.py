"""A crawl in a thread and an event loop of its own, beside a program that has a loop already or does something else.

So a notebook's loop and a crawl do not hold each other up, and the program's signal handlers stay what they are: a
crawl in a thread is stopped by whoever waits for it. One process crawls a job once at a time.
"""

from __future__ import annotations

import asyncio
import concurrent.futures.thread
import contextlib
import threading
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import msgspec

from skitter.app.config import CrawlConfig
from skitter.app.crawl_node import make_crawl_node
from skitter.app.event_loop import new_loop
from skitter.app.frontiers import is_shared
from skitter.app.script_log import logging_as
from skitter.app.summary import Summary
from skitter.delivery.item_buffer import ItemBuffer
from skitter.errors import JobError
from skitter.extract.items import KEEPS_OBJECTS
from skitter.model.job import Counts, Report
from skitter.node.node import Node
from skitter.observe.events import emit, logger
from skitter.spiders.base import Spider

EXIT_SECONDS = 60.0
"""A program that ends waits so long for its crawls to stop in order."""
WAKE_SECONDS = 0.2


async def wake_often(waiting: asyncio.Future[Any]) -> None:
    """Wait until it is done, and let the loop turn meanwhile: the stop button of a notebook cancels the task of the
    cell, but does not wake the loop."""
    while not waiting.done():
        await asyncio.wait([waiting], timeout=WAKE_SECONDS)


class Place:
    """The place of one crawl among those of this process."""

    def __init__(self, before: Place | None) -> None:
        self.is_leaving = False
        """The crawl was asked to stop: another one of its job may follow."""
        self.is_free = threading.Event()
        self._before = before

    def wait(self) -> None:
        """Until the crawl before it, which is stopping, has ended."""
        if self._before is not None:
            self._before.is_free.wait()
            self._before = None


class RunningCrawls:
    """The crawls of this process, by frontier and job: two of one job would have the same workers and targets."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places: dict[tuple[str, str], Place] = {}
        self._threads: set[CrawlThread] = set()
        self._stops_at_exit = False

    def take(self, config: CrawlConfig) -> Place:
        """A place for a crawl; JobError: this process crawls the job."""
        with self._lock:
            before = self._places.get(_key(config))
            if before is not None and not before.is_leaving:
                raise JobError(
                    f"this program is already crawling the job: {config.spec.name}",
                    hint="wait until it has ended, or give the other crawl another job name: job=NAME",
                )
            place = Place(before)
            if is_shared(config.frontier):
                self._places[_key(config)] = place
            return place

    def leave(self, config: CrawlConfig, place: Place) -> None:
        with self._lock:
            if self._places.get(_key(config)) is place:
                del self._places[_key(config)]
        place.is_free.set()

    @contextlib.contextmanager
    def taken(self, config: CrawlConfig) -> Iterator[None]:
        """For a crawl in this very thread."""
        place = self.take(config)
        try:
            place.wait()
            yield
        finally:
            self.leave(config, place)

    def add(self, thread: CrawlThread) -> None:
        """A crawl in a thread of its own begins."""
        with self._lock:
            self._threads.add(thread)
            if not self._stops_at_exit:
                self._stops_at_exit = True
                # atexit would be too late: pools of threads, which a crawl needs to end in order, are closed by then.
                # They are closed by a hook of this kind too, and the last one that was registered goes first.
                threading._register_atexit(self._stop_at_exit)  # type: ignore[attr-defined]  # noqa: SLF001

    def remove(self, thread: CrawlThread) -> None:
        with self._lock:
            self._threads.discard(thread)

    def _stop_at_exit(self) -> None:
        """The program ends, and may have left a stream in the middle."""
        threads = list(self._threads)
        for thread in threads:
            thread.stop()
        concurrent.futures.wait([thread.ended for thread in threads], timeout=EXIT_SECONDS)


RUNNING = RunningCrawls()


class CrawlThread:
    """One crawl. ``stop`` and ``kill`` may be called from any thread, at any time."""

    def __init__(
        self, config: CrawlConfig, spider: Spider | None, given: Collection[str], buffer: ItemBuffer | None = None
    ) -> None:
        """``given``: see ``logging_as``. ``buffer``: of a program that takes the items."""
        self.ended: Future[Summary | None] = Future()
        """None: it was stopped before it had begun."""
        self.counts = Counts()
        """The counts of the last report; there are two reports a second."""
        self._config = config
        self._spider = spider
        self._given = given
        self._buffer = buffer
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._node: Node[Summary] | None = None
        self._is_stopped = self._is_killed = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin, once. JobError: see ``RunningCrawls.take``."""
        self._place = RUNNING.take(self._config)
        RUNNING.add(self)
        self._thread = threading.Thread(target=self._run, name="skitter-crawl", daemon=True)
        self._thread.start()

    @property
    def is_current(self) -> bool:
        """Whether this is called in the thread of the crawl."""
        return threading.current_thread() is self._thread

    def stop(self) -> None:
        """Finish what is in flight, record what is confirmed, and end."""
        with self._lock:
            self._is_stopped = self._place.is_leaving = True
            self._tell(lambda node: node.stop())

    def kill(self) -> None:
        """End at once; nothing is lost."""
        with self._lock:
            self._is_stopped = self._is_killed = self._place.is_leaving = True
            self._tell(lambda node: node.kill())

    def wait(self) -> Summary:
        """Until it has ended. Ctrl-C stops it in order, a second one at once; then KeyboardInterrupt is raised."""
        try:
            summary = self.ended.result()
        except KeyboardInterrupt:
            self.stop()
            self.wait_for_end()
            raise
        assert summary is not None, "nobody else stops it before it has begun"
        return summary

    def wait_for_end(self) -> Summary | None:
        """Until it has ended, after ``stop``: Ctrl-C kills it."""
        try:
            return self.ended.result()
        except KeyboardInterrupt:
            self.kill()
            return self.ended.result()

    async def wait_in_loop(self) -> Summary | None:
        """Until it has ended. Being cancelled stops it in order, and again at once; then CancelledError is raised."""
        waiting = asyncio.wrap_future(self.ended)
        # It counts as retrieved, also if the waiter is cancelled.
        waiting.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        try:
            await wake_often(waiting)
            return waiting.result()
        except asyncio.CancelledError:
            if waiting.done():
                raise
            self.stop()
            try:
                await asyncio.wait([waiting])
            except asyncio.CancelledError:
                self.kill()
                await asyncio.wait([waiting])
            raise

    def _note(self, report: Report) -> None:
        self.counts = report.counts

    def _tell(self, call: Callable[[Node[Any]], object]) -> None:
        if self._loop is not None and self._node is not None:
            # RuntimeError: it has ended, and its loop is closed.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(call, self._node)

    def _run(self) -> None:
        summary: Summary | None = None
        error: BaseException | None = None
        try:
            self._place.wait()
            with logging_as(self._config.settings.logging, self._given, self._config.spec.name):
                config = msgspec.structs.replace(self._config, event_level=logger.getEffectiveLevel())
                with asyncio.Runner(loop_factory=new_loop) as runner:
                    summary = runner.run(self._crawl(config))
        except BaseException as raised:  # noqa: BLE001  handed on to whoever waits
            error = raised
        # In this order: whoever waited may begin the same job again.
        RUNNING.leave(self._config, self._place)
        RUNNING.remove(self)
        if error is not None:
            self.ended.set_exception(error)
        else:
            self.ended.set_result(summary)
        if self._buffer is not None:
            self._buffer.end()

    async def _crawl(self, config: CrawlConfig) -> Summary | None:
        KEEPS_OBJECTS.set(self._buffer is not None and not is_shared(config.frontier))
        node = make_crawl_node(config, on_report=self._note, on_event=emit, spider=self._spider, buffer=self._buffer)
        with self._lock:
            self._loop, self._node = asyncio.get_running_loop(), node
            if self._is_stopped:
                node.stop()
            if self._is_killed:
                node.kill()
        return await node.run()


def _key(config: CrawlConfig) -> tuple[str, str]:
    scheme, _, path = config.frontier.partition(":")
    return (f"sqlite:{Path(path).absolute()}" if scheme == "sqlite" else config.frontier, config.spec.name)
