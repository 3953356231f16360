"""The intake contract: every message becomes a request of the frontier or a dead letter, whatever process is killed.

The reader adds the requests of a batch to the frontier, has the unusable messages of it made dead letters, and only
then acknowledges all of them. So a reader that dies in between leaves messages that come again, and the frontier knows
their requests already. What a source cannot remember by itself (how far a file was read) is its mark: ``ack`` returns
it, the frontier stores it, and ``open`` gets it back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec


class Message(msgspec.Struct, frozen=True):
    """A message of a source, as it was read."""

    body: bytes
    ref: Any = None
    """What the intake acknowledges it by. Meaningless to others."""
    id: str = ""
    """The same whenever this message is delivered (an offset, a stream id, a message id); empty: it has none."""
    priority: int | None = None
    """The priority that the source gave it; None: none. That of its request, unless the body names one."""
    form: bool = False
    """Fields of its JSON object that are not a request's are form data, as scrapy-redis has it."""


class DeadLetter(msgspec.Struct, frozen=True):
    """A message that cannot become a request, and why."""

    message: Message
    reason: str


class Backlog(msgspec.Struct, frozen=True):
    """The work that a source still holds."""

    messages: int | None = None
    """Messages that are not acknowledged yet, those of other readers included; None: not known."""
    lag_seconds: float | None = None
    """Age of the oldest message that waits; None: not known."""


class Intake(Protocol):
    """A reader of one source. It is synchronous and called from one thread; every method may raise IntakeError.

    IntakeAwayError says that the source's server is away: the reader calls ``open`` again, after a pause.
    """

    source: str
    """The name under which the frontier keeps the progress, without secrets: the same at every start."""
    shared: bool
    """Several processes may read it at a time. False: the frontier lets one at a time have it."""
    is_exhausted: bool
    """A source that has an end was read up to it. Never true for one that has none."""

    def open(self, mark: bytes) -> None:
        """Connect, or connect again. What was read before and not acknowledged is delivered again, here or elsewhere.

        ``mark`` is what the last ``ack`` returned, as far as the frontier has it; empty: there was none.
        """
        ...

    def read(self, limit: int, timeout_seconds: float) -> list[Message]:
        """The next messages, at most ``limit``; wait so long for the first one. Also says that this reader lives.

        With ``limit`` 0 nothing is read, and the connection and its claims are kept alive.
        """
        ...

    def ack(self, messages: Sequence[Message]) -> bytes:
        """These are in the frontier or dead letters: never deliver them again.

        They are given in the order they were read, and none between them is left out. Returns the mark, or nothing
        where the source remembers by itself.
        """
        ...

    def dead_letter(self, letters: Sequence[DeadLetter]) -> None:
        """Put messages to the dead letters, durable and confirmed when it returns; may be told twice.

        When it raises, nothing of the batch is acknowledged, and the batch comes again.
        """
        ...

    def backlog(self) -> Backlog: ...

    def close(self) -> None:
        """Disconnect. What was read and not acknowledged is handed back at once, where the source can do that."""
        ...
