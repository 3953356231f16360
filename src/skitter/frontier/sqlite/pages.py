"""Known pages of a job that recrawls, and their records."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from skitter.frontier.damage_errors import checked_time
from skitter.frontier.sqlite.job_table import JobTable
from skitter.frontier.sqlite.row_codec import encode, listed
from skitter.model.page_record import KnownPage, PageRecord

_OF_IDS = "FROM pages WHERE job = ? AND id IN (SELECT value FROM json_each(?))"
_decode_record = msgspec.msgpack.Decoder(PageRecord).decode


class PageTable(JobTable):
    """A page is found by its id, or by the time when it is due."""

    def due_times(self, ids: Sequence[int]) -> dict[int, float]:
        return dict(self._execute(f"SELECT id, due {_OF_IDS}", (self._job, listed(ids))).fetchall())

    def insert_pages(self, pages: Sequence[KnownPage]) -> None:
        self._executemany(
            "INSERT OR IGNORE INTO pages (job, id, host, due, payload) VALUES (?, ?, ?, ?, ?)",
            [(self._job, page.id, page.host_key, page.due_at, bytearray(page.payload)) for page in pages],
        )

    def page_records(self, ids: Sequence[int]) -> dict[int, PageRecord]:
        found = self._execute(f"SELECT id, record {_OF_IDS} AND record IS NOT NULL", (self._job, listed(ids)))
        return {request_id: _decode_record(record) for request_id, record in found}

    def save_page_records(self, records: dict[int, PageRecord]) -> None:
        self._executemany(
            "UPDATE pages SET due = ?, record = ? WHERE job = ? AND id = ?",
            [(record.next_at, encode(record), self._job, request_id) for request_id, record in records.items()],
        )

    def known_pages(self, after: float, until: float, limit: int) -> list[KnownPage]:
        # Up to the last of the first so many, and all that are due with it.
        found = self._execute(
            "SELECT id, host, payload, due FROM pages INDEXED BY pages_due WHERE job = ?1 AND due > ?2"
            " AND due <= min(?3, ifnull((SELECT due FROM pages INDEXED BY pages_due WHERE job = ?1 AND due > ?2"
            " ORDER BY due LIMIT 1 OFFSET ?4), ?3)) ORDER BY due, id",
            (self._job, after, until, limit - 1),
        )
        return [KnownPage(request_id, host, payload, checked_time(due)) for request_id, host, payload, due in found]
