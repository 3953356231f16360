"""The settings of the log in a script: what they change of ``logging`` while a crawl runs.

Several crawls may run at a time, each in a thread of its own: a crawl's file has what that crawl says, and what is said
outside of all crawls.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar

from skitter.event_streams.publisher import EventPublisher
from skitter.event_streams.stream_urls import event_stream_of
from skitter.observe import events
from skitter.observe.events import Event, Level
from skitter.observe.log_file import LogFile
from skitter.observe.log_lines import json_line, text_line
from skitter.settings import Logging

STDERR = "-"
_CRAWL: ContextVar[object | None] = ContextVar("CRAWL", default=None)
"""The crawl that a record is of; None: of none, or of a thread that does not know."""


@contextmanager
def logging_as(settings: Logging, asked: Collection[str], job: str) -> Iterator[None]:
    """``asked``: the settings that somebody has given; of the others, the script's own ``logging`` decides.

    A script that has set up no handlers is given one on standard error, or none would see what was asked for. Events
    are published from ``log_level`` on, so the logger ``skitter`` has that level meanwhile.
    """
    crawl = object()
    before = _CRAWL.set(crawl)
    with ExitStack() as stack:
        stack.callback(_CRAWL.reset, before)
        if {"log_level", "log_file", "log_format"} & set(asked):
            _write_lines(stack, settings, job, crawl)
        if {"log_level", "log_file", "log_format", "events"} & set(asked):
            stack.enter_context(_LEVEL.at(Level[settings.log_level.upper()]))
        if settings.events:
            publisher = EventPublisher(event_stream_of(settings.events), job)
            stack.enter_context(_added(_EventHandler(publisher.publish, crawl)))
            stack.enter_context(publisher)
        yield


def _write_lines(stack: ExitStack, settings: Logging, job: str, crawl: object) -> None:
    form = json_line if settings.log_format == "json" else text_line
    if settings.log_file != STDERR:
        file = stack.enter_context(
            LogFile(settings.log_file, max_bytes=settings.max_log_bytes, max_files=settings.max_log_files)
        )
        stack.enter_context(_added(_EventHandler(lambda event: file.write(form(event, job)), crawl)))
    elif not logging.getLogger("skitter").hasHandlers():
        stderr = sys.stderr
        stack.enter_context(
            _added(_EventHandler(lambda event: print(form(event, job), file=stderr, flush=True), crawl))
        )


class _LowestLevel:
    """The level of the logger ``skitter``: the lowest that a crawl has asked for, and what it was when none runs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: list[int] = []
        self._before = logging.NOTSET

    @contextmanager
    def at(self, level: int) -> Iterator[None]:
        logger = logging.getLogger("skitter")
        with self._lock:
            if not self._asked:
                self._before = logger.level
            self._asked.append(level)
            logger.setLevel(min(self._asked))
        try:
            yield
        finally:
            with self._lock:
                self._asked.remove(level)
                logger.setLevel(min(self._asked, default=self._before))


_LEVEL = _LowestLevel()


@contextmanager
def _added(handler: logging.Handler) -> Iterator[None]:
    logger = logging.getLogger("skitter")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.close()


class _EventHandler(logging.Handler):
    """Passes on the records of one crawl, and those of none, as events."""

    def __init__(self, pass_on: Callable[[Event], object], crawl: object) -> None:
        super().__init__()
        self._pass_on = pass_on
        self._crawl = crawl

    def emit(self, record: logging.LogRecord) -> None:
        if _CRAWL.get() in (None, self._crawl):
            # A full disk or a closed pipe must not end a crawl.
            with suppress(OSError):
                self._pass_on(events.of_record(record))
