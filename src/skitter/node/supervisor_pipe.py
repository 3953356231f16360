"""The pipe from a worker process to its supervisor: what the worker writes, and what the supervisor reads.

One JSON object a line: ``hello`` (the worker's id), ``beat`` (alive), ``committed`` (how many outcomes), ``event`` (see
``observe.events``), ``log``, and as the last one ``end`` (whether to be started again, and whether the job is over),
``error`` (why it cannot go on) or ``failed`` (an error that nobody expected).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import select
from collections.abc import Callable
from typing import Any

from skitter.errors import BackendError, SkitterError, UsageError
from skitter.observe import events
from skitter.observe.library_log_filter import LibraryFilter


class SupervisorPipe:
    """The worker's end. A line is written whole or not at all, from any thread."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self.is_broken = False
        """The supervisor is gone."""
        # A beat that does not fit is followed by another: nothing here may wait.
        os.set_blocking(pipe, False)
        # What a spider starts has no business with it.
        os.set_inheritable(pipe, False)

    def say(self, **message: Any) -> None:
        """Write a message now, or not at all."""
        try:
            os.write(self._pipe, _line(message))
        except BlockingIOError:
            pass
        except OSError:
            self.is_broken = True

    def say_last(self, **message: Any) -> None:
        """Write the last message, and wait until there is room for it."""
        os.set_blocking(self._pipe, True)
        self.say(**message)


class PipeLogHandler(logging.Handler):
    """Writes events and log lines to the pipe, for the supervisor to show."""

    def __init__(self, pipe: SupervisorPipe) -> None:
        super().__init__()
        self._pipe = pipe
        self.addFilter(LibraryFilter())

    def emit(self, record: logging.LogRecord) -> None:
        event = events.of_record(record)
        if event.kind is events.LOG:
            self._pipe.say(log=event.fields["text"], logger=record.name, level=record.levelno)
        else:
            self._pipe.say(event=event.kind.name, fields=event.fields, level=event.level, at=event.at)


class WorkerMessages:
    """The supervisor's end: what one worker process has said."""

    def __init__(self, on_event: Callable[[events.Event], None], on_line: Callable[[], None]) -> None:
        """``on_line`` is called for each line, whatever it says: the process is alive."""
        self.worker = ""
        """Its worker id, once it has said hello."""
        self.committed = 0
        """Outcomes, by its last word on them."""
        self.error: SkitterError | None = None
        """Why it could not go on."""
        self.failure = ""
        """The error that nobody expected, of which it died. Not a page's: what a callback raises is caught."""
        self.has_finished = False
        """It said that there is nothing more to do. An exit code alone does not tell: a spider may call exit."""
        self.starts_over = False
        """It said that a new run of the job began, for which it wants to be started again."""
        self.saw_end_of_job = False
        """It said that the job has finished or was stopped: no other worker will get a request."""
        self._on_event = on_event
        self._on_line = on_line

    async def read(self, pipe: int) -> None:
        """Read until the pipe is closed at the other end, and close it here."""
        stream = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(pipe, "rb")
        )
        try:
            while not stream.at_eof():
                # ValueError: half a line, of a process that was killed while it wrote.
                with contextlib.suppress(ValueError):
                    line = await stream.readline()
                    self._on_line()
                    self._take(json.loads(line))
        finally:
            transport.close()

    def _take(self, message: dict[str, Any]) -> None:
        match message:
            case {"hello": worker}:
                self.worker = worker
            case {"event": name, "fields": fields, "level": level, "at": at}:
                self._on_event(events.received(name, {"worker": self.worker} | fields, level, at))
            case {"log": text, **rest}:
                said = events.log_line(text, rest.get("logger", ""), rest.get("level", logging.INFO))
                said.fields["worker"] = self.worker
                self._on_event(said)
            case {"committed": committed}:
                self.committed = committed
            case {"failed": text}:
                self.failure = text
            case {"end": again, **rest}:
                self.has_finished, self.starts_over = not again, again
                self.saw_end_of_job = rest.get("of_job", False)
            case {"error": text, "hint": hint, "code": code}:
                kind = UsageError if code == UsageError.exit_code else BackendError
                self.error = kind(text, hint=hint)


def _line(message: dict[str, Any]) -> bytes:
    """Short enough to be written in one piece: longer lines of two threads could mix."""
    line = json.dumps(message).encode() + b"\n"
    while len(line) > select.PIPE_BUF:
        message = {name: _shorter(value) for name, value in message.items()}
        line = json.dumps(message).encode() + b"\n"
    return line


def _shorter(value: Any) -> Any:
    """Text loses its middle: what happened stands at the beginning, and at the end of a traceback."""
    if isinstance(value, dict):
        return {name: _shorter(part) for name, part in value.items()}
    if not isinstance(value, str) or len(value) < 100:
        return value
    kept = len(value) * 2 // 5
    return f"{value[:kept]} … {value[-kept:]}"
