"""The event log: it selects, formats and writes event lines.

Text, or with ``--log-format json`` one JSON object a line. On a terminal a few stand above the live display. Whatever a
page, a host or a spider has put into an event, it cannot forge another one: further lines of a text (a traceback) begin
with a bar. It holds nothing that a terminal would obey, and no password of a URL.
"""

from __future__ import annotations

import logging
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from typing import NamedTuple, TextIO

from skitter.cli.output import note
from skitter.cli.progress import Progress
from skitter.cli.terminal_text import clean
from skitter.observe import events
from skitter.observe.events import Event, Level
from skitter.observe.library_log_filter import LibraryFilter
from skitter.observe.log_file import LogFile
from skitter.observe.log_lines import json_line, message_lines, text_line
from skitter.observe.outage_reports import OutageReports
from skitter.settings import Logging

STDERR = "-"
_NEVER = logging.CRITICAL


class LogDestination(NamedTuple):
    """A destination of event lines."""

    level: int
    """The lowest level that is written."""
    logging_level: int
    """The lowest level of ``logging`` records (mostly of spiders) that is written."""
    write: Callable[[Event], None]


class EventLog:
    """A writer of event lines, for events of the crawl and records of ``logging``."""

    def __init__(self, destinations: list[LogDestination]) -> None:
        self._destinations = destinations
        self._failures: set[str] = set()
        self._outages: defaultdict[str, OutageReports] = defaultdict(OutageReports)
        self.level = min(
            (min(destination.level, destination.logging_level) for destination in destinations), default=_NEVER
        )
        """The lowest level of all destinations."""

    def event(self, event: Event) -> None:
        if event.kind is events.CALLBACK_FAILED:
            # Each worker reports the first failure of a kind.
            if event.fields["failure"] in self._failures:
                return
            self._failures.add(event.fields["failure"])
        if event.kind in (events.FRONTIER_AWAY, events.FRONTIER_BACK) and not self._is_told(event):
            return
        for level, logging_level, write in self._destinations:
            if event.level >= (logging_level if event.kind is events.LOG else level):
                # A full disk or a closed pipe must not end a crawl.
                with suppress(OSError):
                    write(event)

    def _is_told(self, event: Event) -> bool:
        """Whether an event of an outage is news: each worker reports it, and this process too."""
        reports = self._outages[event.fields.get("store", "")]
        if event.kind is events.FRONTIER_AWAY:
            return reports.tells_begin(event.fields.get("reason", ""), event.at)
        return reports.tells_end(event.at)


@contextmanager
def event_log_lines(
    settings: Logging, progress: Progress | None, *, job: str, quiet: bool = False, verbose: int = 0
) -> Iterator[EventLog]:
    """Open the event log of one command, which includes this process's ``logging`` records.

    ``progress``: the display of a terminal; None: the command has none, and a terminal gets lines as a pipe does.
    """
    with ExitStack() as stack:
        destinations = []
        level = Level.DEBUG if verbose else Level[settings.log_level.upper()]
        if settings.log_file != STDERR:
            file = stack.enter_context(
                LogFile(settings.log_file, max_bytes=settings.max_log_bytes, max_files=settings.max_log_files)
            )
            form = json_line if settings.log_format == "json" else text_line
            destinations.append(LogDestination(level, level, lambda event: file.write(form(event, job))))
        if quiet:
            pass
        elif is_json_on_stderr(settings):
            destinations.append(LogDestination(level, level, lambda event: _write(sys.stderr, json_line(event, job))))
        elif progress is not None and sys.stderr.isatty():
            shown = max(level, (Level.NOTICE, Level.INFO, Level.DEBUG)[min(verbose, 2)])
            destinations.append(LogDestination(shown, level, lambda event: progress.event(terminal_line(event))))
        elif settings.log_file == STDERR:
            destinations.append(LogDestination(level, level, lambda event: _write(sys.stderr, text_line(event, job))))
        publisher = None
        if settings.events:
            from skitter.event_streams.publisher import EventPublisher
            from skitter.event_streams.stream_urls import event_stream_of

            publisher = EventPublisher(event_stream_of(settings.events), job)
            destinations.append(LogDestination(level, level, publisher.publish))
        log = EventLog(destinations)
        stack.enter_context(_listening(log))
        if publisher is not None:
            # Behind the log, which it tells what becomes of its last events.
            stack.enter_context(publisher)
        yield log


def is_json_on_stderr(settings: Logging) -> bool:
    """Return whether everything on standard error is JSON."""
    return settings.log_format == "json" and settings.log_file == STDERR


def terminal_line(event: Event) -> str:
    """Format an event for a terminal, without date; the job only where there are several."""
    moment = datetime.fromtimestamp(event.at).strftime("%H:%M:%S")  # noqa: DTZ006  the clock on the wall
    return f"{moment} {clean(event.job)}: {_message(event)}" if event.job else f"{moment} {_message(event)}"


def print_event(event: Event) -> None:
    """Print an event that a person should see, for commands without a log."""
    if event.level >= Level.NOTICE:
        note(_message(event))


def _message(event: Event) -> str:
    text = "\n".join(message_lines(event))
    if event.kind is not events.LOG:
        return text
    return f"{event.level.name} {clean(event.fields['logger'])}: {text}"


def _write(stream: TextIO, line: str) -> None:
    # In one piece: other threads write there too.
    stream.write(line + "\n")
    stream.flush()


@contextmanager
def _listening(log: EventLog) -> Iterator[None]:
    """Route this process's log records to the event log, and restore logging afterwards."""
    root, handler = logging.getLogger(), _Handler(log)
    handler.addFilter(LibraryFilter())
    before = root.level, events.logger.level
    root.addHandler(handler)
    root.setLevel(log.level)
    events.logger.setLevel(log.level)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(before[0])
        events.logger.setLevel(before[1])


class _Handler(logging.Handler):
    def __init__(self, log: EventLog) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        self._log.event(events.of_record(record))
