"""The record of an intake in the frontier, as one reader keeps it: who reads, how far it is, and in which trouble."""

from __future__ import annotations

import contextlib
import time

import msgspec

from skitter.cluster.process_identity import is_dead, worker_id
from skitter.errors import FrontierError, JobError
from skitter.frontier.contract import Frontier
from skitter.intakes.contract import Backlog
from skitter.model.intake import IntakeProgress, IntakeSeen

TELL_SECONDS = 1.0
"""Between two reports to the frontier while something is read: each is a write."""
KEEP_SECONDS = 10.0
"""Between two reports while nothing changes: a third of the time that a reader counts as alive."""


class IntakeRecord:
    """What this process tells the frontier of an intake. From ``open`` on it is a reader, unless it counts as dead."""

    def __init__(self, frontier: Frontier, source: str) -> None:
        self._frontier = frontier
        self.source = source
        self.is_reader = False
        self.progress = IntakeProgress()
        self._owner = worker_id()
        self._told = self.progress
        self._told_at = 0.0

    def set(self, **changes: object) -> None:
        """Note progress, which is told when that is due."""
        self.progress = msgspec.structs.replace(self.progress, **changes)

    async def seen(self) -> IntakeSeen | None:
        """Return what the frontier knows of the intake; None: it was never opened in this run."""
        return next((intake for intake in await self._frontier.intakes() if intake.source == self.source), None)

    async def other_readers(self) -> list[str]:
        """Return the other readers that are alive."""
        seen = await self.seen()
        owners = seen.owners if seen is not None else ()
        return [owner for owner in owners if owner != self._owner and not is_dead(owner)]

    async def forget_dead_readers(self) -> None:
        """End processes of this machine that were killed: nobody need wait until their time has run out."""
        for owner in seen.owners if (seen := await self.seen()) is not None else ():
            if is_dead(owner):
                await self._frontier.leave_intake(self.source, owner)

    async def open(self, *, alone: bool) -> bool:
        """Become a reader; False: another process has the source for itself (``alone``)."""
        mark = await self._frontier.open_intake(self.source, self._owner, alone=alone)
        if mark is None:
            return False
        # Counts are those since this call; the frontier has kept what it was told before.
        self.set(
            mark=self.progress.mark or mark,
            read=self.progress.read - self._told.read,
            added=self.progress.added - self._told.added,
            dead_letters=self.progress.dead_letters - self._told.dead_letters,
        )
        self._told = IntakeProgress()
        self.is_reader, self._told_at = True, time.monotonic()
        return True

    def begin_anew(self) -> None:
        """Forget what was read: in another run of the job nothing was."""
        self.progress = self._told = IntakeProgress()

    async def tell(self) -> None:
        """Report to the frontier. One that counts as dead there is no reader any more."""
        if not self.is_reader:
            return
        told, self._told_at = self.progress, time.monotonic()
        if await self._frontier.tell_intake(self.source, self._owner, told):
            self._told = told
        else:
            self.is_reader = False

    def is_tell_due(self) -> bool:
        """Return whether it is time to report, if something has changed."""
        return self.is_reader and time.monotonic() - self._told_at >= TELL_SECONDS

    async def tell_changes(self) -> None:
        """Report what has changed, or that this reader lives."""
        if self.progress != self._told or time.monotonic() - self._told_at >= KEEP_SECONDS:
            await self.tell()

    def set_backlog(self, backlog: Backlog) -> None:
        self.set(backlog=backlog.messages, lag_seconds=backlog.lag_seconds)

    def end_trouble(self) -> None:
        """Note that the source is read again; that is told at the next occasion."""
        self.set(trouble="")
        self._told_at = 0.0

    async def close(self) -> bool:
        """Nothing comes any more: close the intake; False: another process still reads it."""
        await self.tell()
        is_closed = await self._frontier.close_intake(self.source, self._owner)
        self.is_reader = False
        return is_closed

    async def give_up(self) -> None:
        """Undo ``open`` for a source that cannot be read: one that never was must not keep the job from finishing."""
        seen = await self.seen()
        if self.progress.mark or (seen is not None and seen.read):
            await self._frontier.leave_intake(self.source, self._owner)
        else:
            await self._frontier.close_intake(self.source, self._owner)
        self.is_reader = False

    async def leave(self) -> None:
        """Stop being a reader; the intake stays open."""
        if self.is_reader:
            self.is_reader = False
            # If the store is unavailable or the job was dropped, its time runs out by itself.
            with contextlib.suppress(FrontierError, JobError):
                await self._frontier.tell_intake(self.source, self._owner, self.progress)
                await self._frontier.leave_intake(self.source, self._owner)
