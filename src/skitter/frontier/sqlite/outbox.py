"""Items that wait for their sinks, and how far each sink and each intake is."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from skitter.frontier.sqlite.job_table import JobTable, typed
from skitter.frontier.sqlite.row_codec import encode, listed
from skitter.frontier.tables import IntakeRow, SinkRow
from skitter.model.intake import IntakeRecord
from skitter.model.item import Item, ItemKind, NewItem
from skitter.model.job import SinkProgress

_decode_intake = msgspec.msgpack.Decoder(IntakeRecord).decode
_decode_progress = msgspec.msgpack.Decoder(SinkProgress).decode


class OutboxTable(JobTable):
    """Staged items belong to a lease, and come to the outbox when it ends well."""

    def stage(self, request_id: int, epoch: int, items: Sequence[NewItem], after: int | None) -> None:
        first = self._one(
            "SELECT coalesce(max(place) + 1, 0) FROM staged WHERE job = ? AND id = ? AND epoch = ?", request_id, epoch
        )
        if after is None or first == after:
            self._executemany(
                "INSERT INTO staged VALUES (?, ?, ?, ?, ?, ?)",
                [
                    (self._job, request_id, epoch, first + n, item.kind.value, item.record)
                    for n, item in enumerate(items)
                ],
            )

    def publish(self, request_id: int, epoch: int, after: int, *, keep: bool) -> list[ItemKind]:
        if keep:
            self._execute(
                "INSERT INTO outbox SELECT job, ? + 1 + place, id, place, kind, record FROM staged"
                " WHERE job = ? AND id = ? AND epoch = ?",
                (after, self._job, request_id, epoch),
            )
        page = (self._job, request_id, epoch)
        found = self._execute("SELECT kind FROM staged WHERE job = ? AND id = ? AND epoch = ? ORDER BY place", page)
        kinds = [ItemKind(kind) for (kind,) in found.fetchall()]
        self._execute("DELETE FROM staged WHERE job = ? AND id = ? AND epoch = ?", page)
        return kinds

    def save_items(self, items: Sequence[Item]) -> None:
        job = self._job
        self._executemany(
            "INSERT INTO outbox VALUES (?, ?, ?, ?, ?, ?)",
            [(job, i.position, i.request_id, i.place, i.kind.value, bytearray(i.record)) for i in items],
        )

    def items(self, after: int, limit: int) -> list[Item]:
        found = self._execute(
            "SELECT position, id, place, record, kind FROM outbox WHERE job = ? AND position > ?"
            " ORDER BY position LIMIT ?",
            (self._job, after, limit),
        )
        rows = typed(found.fetchall(), int, int, int, bytes, int)
        return [Item(position, id_, place, record, ItemKind(kind)) for position, id_, place, record, kind in rows]

    def drop_items(self, up_to: int, *, delivered: bool = False) -> None:
        if delivered:
            self._execute(
                "INSERT OR IGNORE INTO delivered SELECT DISTINCT job, id FROM outbox WHERE job = ?1 AND position <= ?2"
                " AND kind != ?3 AND id IS NOT (SELECT id FROM outbox WHERE job = ?1 AND position = ?2 + 1)",
                (self._job, up_to, ItemKind.PAGE.value),
            )
        self._execute("DELETE FROM outbox WHERE job = ? AND position <= ?", (self._job, up_to))

    def delivered(self, ids: Sequence[int]) -> set[int]:
        found = self._execute(
            "SELECT id FROM delivered WHERE job = ? AND id IN (SELECT value FROM json_each(?))",
            (self._job, listed(ids)),
        )
        return {request_id for (request_id,) in found}

    def sinks(self) -> list[SinkRow]:
        found = self._execute(
            "SELECT target, progress, owner, owned_until FROM sinks WHERE job = ? ORDER BY target", (self._job,)
        )
        rows = typed(found.fetchall(), str, bytes, str, float)
        return [SinkRow(target, _decode_progress(progress), owner, until) for target, progress, owner, until in rows]

    def save_sink(self, sink: SinkRow) -> None:
        self._execute(
            "INSERT OR REPLACE INTO sinks VALUES (?, ?, ?, ?, ?)",
            (self._job, sink.target, encode(sink.progress), sink.owner, sink.owned_until),
        )

    def drop_sink(self, target: str) -> None:
        self._execute("DELETE FROM sinks WHERE job = ? AND target = ?", (self._job, target))

    def intakes(self) -> list[IntakeRow]:
        found = self._execute("SELECT source, mark, record FROM intakes WHERE job = ? ORDER BY source", (self._job,))
        rows = typed(found.fetchall(), str, bytes, bytes)
        return [IntakeRow(source, mark, _decode_intake(record)) for source, mark, record in rows]

    def save_intake(self, intake: IntakeRow) -> None:
        self._execute(
            "INSERT OR REPLACE INTO intakes VALUES (?, ?, ?, ?)",
            (self._job, intake.source, intake.mark, encode(intake.record)),
        )
