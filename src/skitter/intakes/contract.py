"""Intake contract: every message becomes a request or a dead letter, even if processes are killed.

The reader adds the requests of a batch to the frontier, stores its unusable messages as dead letters, and only then
acknowledges the batch. So if a reader dies in between, the messages are delivered again, and the frontier recognises
their requests as duplicates. A source that cannot remember its own position (a file, for example) uses a mark: ``ack``
returns it, the frontier stores it, and ``open`` receives it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec


class Message(msgspec.Struct, frozen=True):
    """A message as it was read from a source."""

    body: bytes
    ref: Any = None
    """Handle by which the intake acknowledges the message. Private to the intake."""
    id: str = ""
    """Identifier that is the same at every delivery (an offset, a stream id, a message id). Empty if there is none."""
    priority: int | None = None
    """Priority that the source gave the message, if any. Used for its request unless the body names one."""
    form: bool = False
    """Treat fields of its JSON object that are not fields of a request as form data, as scrapy-redis does."""


class DeadLetter(msgspec.Struct, frozen=True):
    """A message that cannot become a request, with the reason."""

    message: Message
    reason: str


class Backlog(msgspec.Struct, frozen=True):
    """The work that a source still holds."""

    messages: int | None = None
    """Number of messages not yet acknowledged, including those of other readers. None if unknown."""
    lag_seconds: float | None = None
    """Age of the oldest waiting message. None if unknown."""


class Intake(Protocol):
    """A reader of one source. It is synchronous and called from one thread; every method may raise IntakeError.

    After IntakeUnavailableError (the server of the source is unavailable), ``open`` is called again after a pause.
    """

    source: str
    """Name under which the frontier stores the progress. The same at every start, and without secrets."""
    shared: bool
    """Whether several processes may read it at a time. If False, the frontier allows one reader at a time."""
    is_exhausted: bool
    """Whether the source was read to its end. Always False for a source without an end."""

    def open(self, mark: bytes) -> None:
        """Connect or reconnect. Unacknowledged messages are delivered again, to this reader or another.

        ``mark`` is the last return value of ``ack`` that the frontier has stored. It is empty if there is none.
        """
        ...

    def read(self, limit: int, timeout_seconds: float) -> list[Message]:
        """Return at most ``limit`` messages; wait up to ``timeout_seconds`` for the first one.

        Also counts as a sign of life of this reader. With ``limit`` 0 nothing is read; the call keeps the connection
        and its claims alive.
        """
        ...

    def ack(self, messages: Sequence[Message]) -> bytes:
        """Acknowledge messages that are in the frontier or in the dead letters: they must not be delivered again.

        They come in the order in which they were read, without gaps. Returns the mark, or empty bytes if the source
        remembers its position itself.
        """
        ...

    def dead_letter(self, letters: Sequence[DeadLetter]) -> None:
        """Store messages as dead letters; they are durable when it returns. May be called twice for a message.

        If it raises, nothing of the batch is acknowledged, and the batch is delivered again.
        """
        ...

    def backlog(self) -> Backlog: ...

    def close(self) -> None:
        """Disconnect. Unacknowledged messages are returned at once, if the source supports that."""
        ...
