"""Intake: a source of requests outside the frontier, as the frontier stores it."""

from __future__ import annotations

import msgspec


class IntakeProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Report of a reader about its intake. The counts are its own, since it opened the intake."""

    mark: bytes = b""
    """Position in the source; empty if the source remembers it, or if nothing was read yet."""
    read: int = 0
    """Messages that were read and acknowledged."""
    added: int = 0
    """Of these, requests that were new."""
    dead_letters: int = 0
    backlog: int | None = None
    """Messages that the source still holds; None if unknown."""
    lag_seconds: float | None = None
    """Age of the oldest waiting message; None if unknown."""
    paused: str = ""
    """Reason why nothing is read at the moment; empty if messages are read."""
    trouble: str = ""
    """Problem that delays the reader at the moment; empty if there is none."""


class IntakeReader(msgspec.Struct, array_like=True):
    """A process that reads an intake, as frontiers store it."""

    owner: str
    until: float
    """Time until which it counts as alive."""
    read: int = 0
    added: int = 0
    dead_letters: int = 0
    paused: str = ""
    trouble: str = ""


class IntakeRecord(msgspec.Struct, array_like=True):
    """An intake as frontiers store it, without its mark."""

    closed: bool = False
    read: int = 0
    """Messages read by readers that have left; ``added`` and ``dead_letters`` likewise."""
    added: int = 0
    dead_letters: int = 0
    backlog: int = -1
    """Last reported value; -1 if unknown."""
    lag_seconds: float = -1.0
    """Last reported value; -1 if unknown."""
    readers: list[IntakeReader] = []

    def seen(self, source: str, now: float) -> IntakeSeen:
        """Return the view of the intake for reports."""
        alive = [reader for reader in self.readers if reader.until > now]
        return IntakeSeen(
            source=source,
            closed=self.closed,
            owners=[reader.owner for reader in alive],
            read=self.read + sum(reader.read for reader in self.readers),
            added=self.added + sum(reader.added for reader in self.readers),
            dead_letters=self.dead_letters + sum(reader.dead_letters for reader in self.readers),
            backlog=self.backlog if self.backlog >= 0 else None,
            lag_seconds=self.lag_seconds if self.lag_seconds >= 0 else None,
            paused=next((reader.paused for reader in alive if reader.paused), ""),
            trouble=next((reader.trouble for reader in alive if reader.trouble), ""),
        )


class IntakeSeen(msgspec.Struct, frozen=True, kw_only=True):
    """An intake in a report."""

    source: str
    closed: bool
    """Whether the source has ended. The job does not finish while an intake is open."""
    owners: list[str] = []
    """Processes that read it at the moment; empty if there are none."""
    read: int = 0
    """Messages that were read and acknowledged in this run."""
    added: int = 0
    """Of these, requests that were new."""
    dead_letters: int = 0
    backlog: int | None = None
    """Messages that the source held at the last check; None if unknown."""
    lag_seconds: float | None = None
    """Age of the oldest message that waited then; None if unknown."""
    paused: str = ""
    """Reason why nothing is read at the moment; empty if messages are read."""
    trouble: str = ""
    """Problem that delays its reader at the moment; empty if there is none."""

    @property
    def duplicates(self) -> int:
        """Messages whose requests were duplicates."""
        return self.read - self.added - self.dead_letters

    @property
    def is_abandoned(self) -> bool:
        """Whether it is open and has no reader."""
        return not self.closed and not self.owners
