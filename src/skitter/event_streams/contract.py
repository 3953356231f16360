"""Contract of an event stream: batches are published in order, and each is repeated until the server has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class EventMessage(NamedTuple):
    """Event in the form in which it is published."""

    id: str
    """Publisher and sequence number from 1. A repeated message has the same id, and gaps are visible."""
    job: str
    event: str
    """Name of the event, such as ``job.state``."""
    level: str
    at: float
    body: bytes
    """Event as JSON: the fields of ``--log-format json``, plus ``publisher`` and ``sequence``."""


class EventStream(Protocol):
    """Stream that events are published to. Called from one thread; methods may raise EventStreamError.

    After EventStreamUnavailableError, which means that the server is unavailable, ``open`` is called again after a
    pause.
    """

    name: str
    """The URL without secrets."""

    def open(self) -> None:
        """Connect or reconnect."""
        ...

    def publish(self, messages: Sequence[EventMessage]) -> None:
        """Publish in this order; return within seconds, when the server has all messages, or raise."""
        ...

    def close(self) -> None:
        """Never raises."""
        ...


class EventReader(Protocol):
    """Stream that a subscriber reads. Called from one thread; methods raise EventStreamError, as above."""

    name: str
    """The URL without secrets."""
    keeps_events: bool
    """Whether events that were published earlier can be read."""
    is_at_end: bool
    """Whether the last ``read`` reached the end of the stream."""

    def begin(self, job: str, since: float) -> None:
        """Connect or reconnect, to read events published since this time. Events of other jobs may be included."""
        ...

    def read(self, wait_seconds: float) -> list[bytes]:
        """Return the next events as JSON; an empty list if none came within ``wait_seconds``."""
        ...

    def close(self) -> None:
        """Never raises."""
        ...
