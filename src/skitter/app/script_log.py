"""The settings ``log_level``, ``log_file`` and ``events`` in a script: what they change of ``logging`` meanwhile."""

from __future__ import annotations

import logging
import sys
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager

from skitter import private_files
from skitter.errors import UsageError
from skitter.event_streams.publisher import EventPublisher
from skitter.event_streams.stream_urls import event_stream_of
from skitter.observe import events
from skitter.observe.events import Level
from skitter.settings import Logging

STDERR = "-"
_FORM = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


@contextmanager
def logging_as(settings: Logging, asked: Collection[str], job: str) -> Iterator[None]:
    """``asked``: the settings that somebody has given; of the others, the script's own ``logging`` decides.

    A script that has set up no handlers is given one on standard error, or none would see what was asked for. Events
    are published from ``log_level`` on, so the logger ``skitter`` has that level meanwhile.
    """
    logger = logging.getLogger("skitter")
    if settings.log_format == "json":
        logger.warning(
            "log_format=json has no effect in a script: record.event of the logger skitter.events has fields"
        )
    with ExitStack() as stack:
        if {"log_level", "log_file"} & set(asked):
            handler = _handler(settings.log_file, is_alone=not logger.hasHandlers())
            if handler is not None:
                handler.setFormatter(logging.Formatter(_FORM))
                stack.enter_context(_added(logger, handler))
        if {"log_level", "log_file", "events"} & set(asked):
            stack.callback(logger.setLevel, logger.level)
            logger.setLevel(Level[settings.log_level.upper()])
        if settings.events:
            publisher = EventPublisher(event_stream_of(settings.events), job)
            stack.enter_context(_added(logger, _PublishingHandler(publisher)))
            stack.enter_context(publisher)
        yield


@contextmanager
def _added(logger: logging.Logger, handler: logging.Handler) -> Iterator[None]:
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.close()


class _PublishingHandler(logging.Handler):
    def __init__(self, publisher: EventPublisher) -> None:
        super().__init__()
        self._publisher = publisher

    def emit(self, record: logging.LogRecord) -> None:
        self._publisher.publish(events.of_record(record))


def _handler(name: str, *, is_alone: bool) -> logging.Handler | None:
    if name == STDERR:
        return logging.StreamHandler(sys.stderr) if is_alone else None
    try:
        # As the command line has it: appended to, and for its owner alone if it is new.
        file = open(name, "a", encoding="utf-8", errors="backslashreplace", opener=private_files.opener)  # noqa: SIM115
    except OSError as error:
        raise UsageError(f"cannot be written: {name}: {error.strerror}", hint="log_file is a file, or -") from error
    return _FileHandler(file)


class _FileHandler(logging.StreamHandler):  # type: ignore[type-arg]
    def close(self) -> None:
        self.stream.close()
        super().close()
