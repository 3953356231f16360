"""The contract of a stream of events: batches are published in order, each until the server has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class EventMessage(NamedTuple):
    """An event as it is published."""

    id: str
    """The publisher and a number that counts from 1: a repeated message has the same one, and a hole can be seen."""
    job: str
    event: str
    """The name of its kind."""
    level: str
    at: float
    body: bytes
    """The event as JSON: what ``--log-format json`` writes, and ``publisher`` and ``sequence``."""


class EventStream(Protocol):
    """A stream of events. Called from one thread; every method may raise EventStreamError.

    EventStreamAwayError says that its server is away: ``open`` is called again, after a pause.
    """

    name: str
    """The URL without secrets."""

    def open(self) -> None:
        """Connect, or connect again."""
        ...

    def publish(self, messages: Sequence[EventMessage]) -> None:
        """Publish in this order, and return when the server has all of them. Within seconds, or raise."""
        ...

    def close(self) -> None:
        """Never raises."""
        ...


class EventReader(Protocol):
    """A stream of events as a subscriber has it. Called from one thread; methods raise EventStreamError, as above."""

    name: str
    """The URL without secrets."""
    keeps_events: bool
    """Whether what was published before can be read."""
    is_at_end: bool
    """Whether all was read that was there when ``read`` returned."""

    def begin(self, job: str, since: float) -> None:
        """Connect, or connect again, and read what was published from this time on. Other jobs may come along."""
        ...

    def read(self, wait_seconds: float) -> list[bytes]:
        """Return the next events as JSON; none: none came for so long."""
        ...

    def close(self) -> None:
        """Never raises."""
        ...
