"""Rules of intakes: who reads a source, what was read, and when nothing comes from it any more.

A reader is alive for ``INTAKE_OWNER_SECONDS`` after it was heard from. One that is not is forgotten by the next call of
another one, which keeps its counts; it does not close the intake, because its messages come again.
"""

from __future__ import annotations

from skitter.frontier.contract import INTAKE_OWNER_SECONDS
from skitter.frontier.rules.job import JobRules
from skitter.frontier.tables import IntakeRow, JobRow, Tables
from skitter.model.intake import IntakeProgress, IntakeReader, IntakeSeen


class IntakeRules:
    """The intakes of a job, in one transaction."""

    def __init__(self, tables: Tables, record: JobRow, now: float, job: JobRules) -> None:
        self._tables = tables
        self._record = record
        self._now = now
        self._job = job

    def open(self, source: str, owner: str, *, alone: bool) -> bytes | None:
        """Become a reader; the mark. None: ``alone``, and there is another one."""
        found = self._row(source)
        row = found or IntakeRow(source)
        if alone and any(reader.owner != owner and reader.until > self._now for reader in row.record.readers):
            return None
        if found is None or row.record.closed:
            self._record.intakes += 1
        self._forget_dead(row, owner)
        readers = row.record.readers
        mine = next((reader for reader in readers if reader.owner == owner), None)
        if mine is None:
            mine = IntakeReader(owner, 0.0)
            row.record.readers = [*readers, mine]
        mine.until = self._now + INTAKE_OWNER_SECONDS
        row.record.closed = False
        self._tables.save_intake(row)
        self._job.reopen()
        return row.mark

    def tell(self, source: str, owner: str, progress: IntakeProgress) -> bool:
        """Keep what a reader tells; False: it is none any more."""
        row = self._row(source)
        mine = next((reader for reader in row.record.readers if reader.owner == owner), None) if row else None
        if row is None or mine is None:
            return False
        self._forget_dead(row, owner)
        mine.until = self._now + INTAKE_OWNER_SECONDS
        mine.read, mine.added, mine.dead_letters = progress.read, progress.added, progress.dead_letters
        mine.paused, mine.trouble = progress.paused, progress.trouble
        row.mark = progress.mark or row.mark
        row.record.backlog = -1 if progress.backlog is None else progress.backlog
        row.record.lag_seconds = -1.0 if progress.lag_seconds is None else progress.lag_seconds
        self._tables.save_intake(row)
        return True

    def leave(self, source: str, owner: str) -> None:
        """A reader stops reading, and the intake stays open."""
        if (row := self._row(source)) is not None:
            _forget(row, [reader for reader in row.record.readers if reader.owner == owner])
            self._tables.save_intake(row)

    def close(self, source: str, owner: str) -> bool:
        """Close the intake unless another reader is alive; whether it is closed."""
        row = self._row(source)
        if row is None:
            return True
        _forget(row, [reader for reader in row.record.readers if reader.owner == owner])
        self._forget_dead(row, owner)
        if not row.record.closed and not row.record.readers:
            row.record.closed = True
            self._record.intakes -= 1
        self._tables.save_intake(row)
        return row.record.closed

    def seen(self) -> list[IntakeSeen]:
        return [row.record.seen(row.source, self._now) for row in self._tables.intakes()]

    def _row(self, source: str) -> IntakeRow | None:
        return next((row for row in self._tables.intakes() if row.source == source), None)

    def _forget_dead(self, row: IntakeRow, owner: str) -> None:
        _forget(row, [reader for reader in row.record.readers if reader.owner != owner and reader.until <= self._now])


def _forget(row: IntakeRow, gone: list[IntakeReader]) -> None:
    """Forget readers, and keep their counts."""
    record = row.record
    for reader in gone:
        record.read += reader.read
        record.added += reader.added
        record.dead_letters += reader.dead_letters
    record.readers = [reader for reader in record.readers if reader not in gone]
