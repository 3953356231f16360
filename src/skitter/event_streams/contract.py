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
