"""Intake: a source outside of the frontier that requests of a job come from, as the frontier keeps it."""

from __future__ import annotations

import msgspec


class IntakeProgress(msgspec.Struct, frozen=True, kw_only=True):
    """What a reader tells of its intake. The counts are its own, since it opened the intake."""

    mark: bytes = b""
    """How far the source was read; empty: it remembers by itself, or nothing was read yet."""
    read: int = 0
    """Messages that were read and acknowledged."""
    added: int = 0
    """Of these, requests that were new."""
    dead_letters: int = 0
    backlog: int | None = None
    """Messages that the source still holds; None: not known."""
    lag_seconds: float | None = None
    """Age of the oldest message that waits; None: not known."""
    paused: str = ""
    """Why nothing is read at the moment; empty: it is."""
    trouble: str = ""
    """The problem that the reader waits out; empty: there is none."""


class IntakeReader(msgspec.Struct, array_like=True):
    """A process that reads an intake, as frontiers store it."""

    owner: str
    until: float
    """It counts as alive until then."""
    read: int = 0
    added: int = 0
    dead_letters: int = 0
    paused: str = ""
    trouble: str = ""


class IntakeRecord(msgspec.Struct, array_like=True):
    """An intake as frontiers store it, without its mark."""

    closed: bool = False
    read: int = 0
    """By readers that are gone, as ``added`` and ``dead_letters``."""
    added: int = 0
    dead_letters: int = 0
    backlog: int = -1
    """As it was told last; -1: not known."""
    lag_seconds: float = -1.0
    """As it was told last; -1: not known."""
    readers: list[IntakeReader] = []

    def seen(self, source: str, now: float) -> IntakeSeen:
        """What people are told of it."""
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
    """Nothing comes from it any more. While one is not closed, the job does not finish."""
    owners: list[str] = []
    """The processes that read it at the moment; empty: nobody does."""
    read: int = 0
    """Messages that were read and acknowledged in this run."""
    added: int = 0
    """Of these, requests that were new."""
    dead_letters: int = 0
    backlog: int | None = None
    """Messages that the source held when it was last asked; None: not known."""
    lag_seconds: float | None = None
    """Age of the oldest message that waited then; None: not known."""
    paused: str = ""
    """Why nothing is read at the moment; empty: it is."""
    trouble: str = ""
    """The problem that its reader waits out; empty: there is none."""

    @property
    def known(self) -> int:
        """Messages whose requests the job had already."""
        return self.read - self.added - self.dead_letters

    @property
    def is_abandoned(self) -> bool:
        """Whether it is open and nobody reads it."""
        return not self.closed and not self.owners
