"""Event lines: which of them, in which form, and where they go.

On a terminal a few readable ones stand above the live display. Elsewhere every line is one JSON object, or with
``--log-format text`` one line of text. Whatever a page, a host or a spider has put into an event, it stays one line,
holds nothing that a terminal would obey, and no password of a URL.
"""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple, TextIO

import msgspec

from skitter import private_files
from skitter.cli.output import note
from skitter.cli.progress import Progress
from skitter.cli.terminal_text import clean, clean_json
from skitter.errors import UsageError
from skitter.model.secrets import without_secrets_inside
from skitter.observe import events
from skitter.observe.events import Event, Level
from skitter.settings import Logging

STDERR = "-"
_NEVER = logging.CRITICAL
_OWN_FIELDS = ("time", "level", "event", "job", "node", "worker", "message")


class LogDestination(NamedTuple):
    """Somewhere that event lines go."""

    level: int
    """What matters less does not."""
    form: Callable[[Event], str]
    write: Callable[[str], None]


class EventLog:
    """Takes events, from the loop or through ``logging``, and writes their lines."""

    def __init__(self, ways: list[LogDestination]) -> None:
        self._ways = ways
        self.level = min((way.level for way in ways), default=_NEVER)
        """Of what is wanted at all."""

    def event(self, event: Event) -> None:
        for level, form, write in self._ways:
            if event.level >= level:
                # A full disk, or nobody who reads: no reason to end a crawl.
                with suppress(OSError):
                    write(form(event))


@contextmanager
def following(
    settings: Logging, progress: Progress, *, job: str, quiet: bool = False, verbose: int = 0
) -> Iterator[EventLog]:
    """The event lines of one command; what this process itself says through ``logging`` is among them."""
    with ExitStack() as stack:
        ways = []
        level = Level.DEBUG if verbose else Level[settings.log_level.upper()]
        if settings.log_file != STDERR:
            file = stack.enter_context(_opened(settings.log_file))
            ways.append(LogDestination(level, _form(settings, job, is_terminal=False), lambda line: _write(file, line)))
        if not quiet and sys.stderr.isatty():
            shown = (Level.NOTICE, Level.INFO, Level.DEBUG)[min(verbose, 2)]
            ways.append(LogDestination(shown, _form(settings, job, is_terminal=True), progress.event))
        elif not quiet and settings.log_file == STDERR:
            form = _form(settings, job, is_terminal=False)
            ways.append(LogDestination(level, form, lambda line: _write(sys.stderr, line)))
        log = EventLog(ways)
        stack.enter_context(_listening(log, verbose=verbose))
        yield log


def _form(settings: Logging, job: str, *, is_terminal: bool) -> Callable[[Event], str]:
    form = settings.log_format
    if form == "auto":
        form = "text" if is_terminal else "json"
    if form == "text":
        return readable if is_terminal else lambda event: text_line(event, job)
    return lambda event: json_line(event, job)


def readable(event: Event) -> str:
    """For somebody at a terminal, who knows the job and the day."""
    moment = datetime.fromtimestamp(event.at).strftime("%H:%M:%S")  # noqa: DTZ006  the clock on the wall
    return f"{moment} {_message(event)}"


def text_line(event: Event, job: str) -> str:
    """For a file that people read."""
    worker = f" worker={event.worker}" if event.worker else ""
    who = clean(f"job={job} node={socket.gethostname()}{worker}")
    return f"{_time(event)} {event.level.name.lower():<7} {event.kind.name}: {_message(event)} ({who})"


def json_line(event: Event, job: str) -> str:
    """For programs."""
    fields: dict[str, Any] = {
        "time": _time(event),
        "level": event.level.name.lower(),
        "event": event.kind.name,
        "job": job,
        "node": socket.gethostname(),
        "worker": event.worker,
        "message": event.text,
    }
    for name, value in event.fields.items():
        if name not in _OWN_FIELDS:
            fields[name] = without_secrets_inside(value)
    return clean_json(msgspec.json.encode(fields).decode())


def plainly(event: Event) -> None:
    """For a command that has no log: what somebody may have to know, on standard error."""
    if event.level >= Level.NOTICE:
        note(_message(event))


def _message(event: Event) -> str:
    text = clean(event.text)
    if event.kind is not events.LOG:
        return text
    return f"{event.level.name} {clean(event.fields['logger'])}: {text}"


def _time(event: Event) -> str:
    return datetime.fromtimestamp(event.at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _write(stream: TextIO, line: str) -> None:
    # In one piece: other threads, and in a file other processes, write there too.
    stream.write(line + "\n")
    stream.flush()


@contextmanager
def _opened(name: str) -> Iterator[TextIO]:
    try:
        # Appended to and never moved: tools that rotate logs may cut it while it is written.
        # For its owner alone, if it is new: a spider may log anything.
        file = open(name, "a", encoding="utf-8", errors="backslashreplace", opener=private_files.opener)  # noqa: SIM115  closed just below
    except OSError as error:
        raise UsageError(f"cannot be written: {name}: {error.strerror}", hint="--log takes a file, or -") from error
    try:
        yield file
    finally:
        # A disk that is full has nothing to say at the end either.
        with suppress(OSError):
            file.close()


@contextmanager
def _listening(log: EventLog, *, verbose: int) -> Iterator[None]:
    """Log records of this process become event lines; afterwards logging is as it was."""
    root, handler = logging.getLogger(), _Handler(log)
    before = root.level, events.logger.level
    root.addHandler(handler)
    root.setLevel(logging.INFO if verbose else logging.WARNING)
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
