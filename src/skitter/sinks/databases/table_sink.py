"""The table sink: each item becomes one row, identified by its key.

An upsert may be repeated, so a batch that was written and not recorded does no harm when it comes again: the rows are
the same. A batch is one transaction. When the database refuses it, parts of it are tried, and never kept, until it is
known which items are bad. An item sets the columns of the fields it has. What others have put into a row stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from skitter.errors import BadItemsError, SinkError, SinkUnavailableError
from skitter.model.item import Item
from skitter.model.job import SinkProgress
from skitter.sinks.databases.column_names import KEY, short_key
from skitter.sinks.databases.database import Column, Database, OtherTableError, RefusedError, TableInfo
from skitter.sinks.databases.machine_lock import MachineLock
from skitter.sinks.databases.table_columns import Row, Table
from skitter.sinks.durable_files import resolve_file
from skitter.sinks.item_keys import items_with_keys

_MARK = b"1"
_MAX_READS = 3
"""How often the table is read again for one batch."""

Pairs = Sequence[tuple[str, dict[str, Any]]]
"""Keys and records."""


class TableSink:
    """The sink of ``sqlite:PATH#table``, ``postgresql://…#table`` and ``mysql://…#table``."""

    exact = True

    def __init__(self, database: Database, file: str = "") -> None:
        self.target = database.target.name
        self._file = file
        self._database = database
        self._fields = database.target.key_fields
        self._lock = MachineLock(database.target.job, self.target)
        self._table: Table | None = None
        """None: not connected."""

    def take(self) -> None:
        if self._file:
            resolve_file(self._file)  # before a run begins
        self._lock.take()

    def open(self, progress: SinkProgress) -> bytes:
        self._forget()
        try:
            self._database.connect()
            found = self._database.read_table()
            if found is None and progress.mark and not progress.closed:
                raise self._gone()
            if found is None:
                self._database.create()
            elif self._database.target.overwrite and not progress.mark:
                # A table that cannot be used is somebody's, and named by mistake.
                self._key_of(found)
                self._database.empty()
            self._table = self._read_table()
        except (RefusedError, OtherTableError) as error:
            self._forget()
            raise SinkError(
                f"the table cannot be prepared: {self.target}: {error}", hint="is it a table that can be written to?"
            ) from error
        except SinkError:
            self._forget()
            raise
        return _MARK

    def write(self, items: Sequence[Item]) -> bytes:
        pairs = items_with_keys(items, self._fields, self.target)
        try:
            self._attempt(pairs, commit=True)
        except RefusedError:
            reasons = self._refused(pairs)
            if reasons:
                raise BadItemsError(
                    self.target, {items[number].position: reason for number, reason in reasons.items()}
                ) from None
            # Each alone is good: two are the same row to the database, and not to us.
            self._attempt(pairs, commit=True, one_by_one=True)
        return _MARK

    def finish(self) -> None:
        """Do nothing: every row was written durably by ``write``."""

    def close(self, *, complete: bool = False) -> None:  # noqa: ARG002  a table keeps nothing for the resuming
        self._forget()
        self._lock.release()

    # ---- the table

    def _connected(self) -> Table:
        """Return the table, and connect again if the connection was lost."""
        if self._table is None:
            self._database.connect()
            self._table = self._read_table()
        return self._table

    def _read_table(self) -> Table:
        found = self._database.read_table()
        if found is None:
            raise self._gone()
        return Table(self._database, found, self._key_of(found))

    def _key_of(self, found: TableInfo) -> tuple[str, ...]:
        """The columns that name a row: ours, or those that the key's fields have in a table of somebody's own."""
        key = (KEY,) if KEY in found.columns else self._fields
        if not key:
            raise SinkError(
                f"this table has no column {KEY}, and no key fields are given: {self.target}",
                hint="name the fields of a unique index, as in ?key=sku; or choose another table",
            )
        if frozenset(key) not in found.uniques:
            raise SinkError(
                f"this table has no unique index on {', '.join(key)}: {self.target}",
                hint="create one, so that a row can be found again; or choose another table",
            )
        others = [unique for unique in found.uniques if unique != frozenset(key)]
        if self._database.one_unique and others:
            raise SinkError(
                f"this table has another unique index, on {', '.join(sorted(others[0]))}: {self.target}",
                hint="an item could replace another row by that index: drop the index, or choose another table",
            )
        return key

    def _gone(self) -> SinkError:
        return SinkError(
            f"the table of the unfinished run is missing: {self.target}",
            hint="restore it, or continue without it: skitter deliver --rest; or start over with --fresh",
        )

    def _forget(self) -> None:
        self._table = None
        self._database.close()

    # ---- a batch

    def _attempt(self, pairs: Pairs, *, commit: bool, one_by_one: bool = False) -> None:
        """Write the pairs in one transaction; raises if it fails."""
        for read_table in range(1, _MAX_READS + 1):
            try:
                self._put(self._connected(), pairs, commit=commit, one_by_one=one_by_one)
                return
            except OtherTableError as error:
                self._forget()
                if read_table == _MAX_READS:
                    raise SinkError(
                        f"the table keeps changing: {self.target}: {error}", hint="is another program changing it?"
                    ) from error
            except SinkUnavailableError:
                # Whatever the connection was in the middle of, the next one begins anew.
                self._forget()
                raise

    def _put(self, table: Table, pairs: Pairs, *, commit: bool, one_by_one: bool) -> None:
        table.adapt_to(record for _, record in pairs)
        rows = [(key, self._row(table, key, record)) for key, record in pairs]
        with self._database.transaction(commit=commit):
            if one_by_one:
                for _, row in rows:
                    self._upsert(table, [row])
            else:
                for group in _groups(_merged(rows)):
                    self._upsert(table, group)

    def _upsert(self, table: Table, rows: list[Row]) -> None:
        columns: dict[str, Column] = {name: table.columns[name] for name in rows[0]}
        self._database.upsert(table.key, columns, rows)

    @staticmethod
    def _row(table: Table, key: str, record: dict[str, Any]) -> Row:
        row = table.row(record)
        if table.key == (KEY,):
            row[KEY] = short_key(key)
        return row

    def _refused(self, pairs: Pairs) -> dict[int, str]:
        """Find the bad items by bisection; return index -> reason."""
        reasons: dict[int, str] = {}
        waiting = [range(len(pairs))]
        while waiting:
            part = waiting.pop()
            try:
                self._attempt([pairs[number] for number in part], commit=False)
            except RefusedError as error:
                if len(part) == 1:
                    reasons[part[0]] = str(error)
                else:
                    waiting += [part[: len(part) // 2], part[len(part) // 2 :]]
        return dict(sorted(reasons.items()))


def _merged(rows: Iterable[tuple[str, Row]]) -> list[Row]:
    """One row for each key: a later item sets what it has, as it would have set it in the table."""
    merged: dict[str, Row] = {}
    for key, row in rows:
        if key in merged:
            merged[key].update(row)
        else:
            merged[key] = row
    return list(merged.values())


def _groups(rows: Iterable[Row]) -> Iterable[list[Row]]:
    """Group rows that have the same columns."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row), []).append(row)
    return groups.values()
