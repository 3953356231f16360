"""How a worker process speaks to its supervisor; ``node.worker_process`` says what, and listens."""

from __future__ import annotations

import json
import logging
import os
import select
from typing import Any

from skitter.observe import events
from skitter.observe.log_levels import LibraryFilter


class SupervisorPipe:
    """The pipe to the supervisor. A line is written whole or not at all, from any thread."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self.is_broken = False
        """The supervisor is gone."""
        # A beat that does not fit is followed by another: nothing here may wait.
        os.set_blocking(pipe, False)
        # What a spider starts has no business with it.
        os.set_inheritable(pipe, False)

    def say(self, **message: Any) -> None:
        """Say it now, or not at all."""
        try:
            os.write(self._pipe, _line(message))
        except BlockingIOError:
            pass
        except OSError:
            self.is_broken = True

    def say_at_last(self, **message: Any) -> None:
        """The last words, for which there is time."""
        os.set_blocking(self._pipe, True)
        self.say(**message)


class PipeLogHandler(logging.Handler):
    """Events and log lines for the supervisor to show."""

    def __init__(self, voice: SupervisorPipe) -> None:
        super().__init__()
        self._voice = voice
        self.addFilter(LibraryFilter())

    def emit(self, record: logging.LogRecord) -> None:
        event = events.of_record(record)
        if event.kind is events.LOG:
            self._voice.say(log=event.fields["text"], logger=record.name, level=record.levelno)
        else:
            self._voice.say(event=event.kind.name, fields=event.fields, level=event.level, at=event.at)


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
