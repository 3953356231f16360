"""Records of schedules over a store: encoding with a version of the format, changes by compare and set, leadership."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from skitter.errors import FormatError
from skitter.model.schedule import Claim, HistoryRow, ScheduleRecord, TickOutcome
from skitter.policy.schedule_ticks import StoreTime, row_of
from skitter.schedule_store.contract import ABSENT, VERSION_CHARS, Row, ScheduleStore, Stored

T = TypeVar("T")
FORMAT = 1
LEADER = "#leader"
"""The document that says who leads; the name of a schedule has no ``#``."""


class _Versioned(msgspec.Struct, array_like=True):
    format: int
    record: msgspec.Raw


class Change(NamedTuple):
    """A record as it is to be stored, and rows of its history."""

    record: ScheduleRecord
    rows: Sequence[HistoryRow] = ()


class Kept(NamedTuple):
    """A record as it is stored."""

    version: str
    record: ScheduleRecord


class ScheduleRecords:
    """The schedules of one store."""

    def __init__(self, store: ScheduleStore) -> None:
        self.store = store

    async def time(self) -> StoreTime:
        return await self.store.time()

    async def all(self) -> dict[str, Kept]:
        """Return all schedules by name."""
        found = await self.store.read_all()
        return {name: _decode(name, stored) for name, stored in found.items() if name != LEADER}

    async def get(self, name: str) -> ScheduleRecord | None:
        found = await self.store.read(name)
        return _decode(name, found).record if found is not None else None

    async def add(self, record: ScheduleRecord) -> bool:
        """Store a new schedule; False: there is one of this name."""
        return await self.store.write(record.schedule.name, ABSENT, _encode(record))

    async def change(self, name: str, step: Callable[[ScheduleRecord], Change | None]) -> ScheduleRecord | None:
        """Change a record, from what it is now: ``step`` is called again if another was first, and None leaves it.

        Return the record after it; None: there is no such schedule.
        """
        while True:
            found = await self.store.read(name)
            if found is None:
                return None
            before = _decode(name, found)
            change = step(before.record)
            if change is None:
                return before.record
            if await self.swap(before, change):
                return change.record

    async def swap(self, before: Kept, change: Change) -> bool:
        """Store a changed record; False: it is no longer what it was before."""
        rows = [Row(row.scheduled_at, _pack(row)) for row in change.rows]
        return await self.store.write(before.record.schedule.name, before.version, _encode(change.record), rows)

    async def remove(self, name: str) -> bool:
        """Remove a schedule and its history; False: there was none."""
        while (found := await self.store.read(name)) is not None:
            if await self.store.remove(name, found.version):
                return True
        return False

    async def history(self, record: ScheduleRecord, limit: int) -> list[HistoryRow]:
        """Return what became of the last ticks, the latest first, with those that run now."""
        stored, time = await self.store.rows(record.schedule.name, limit), await self.store.time()
        rows = [_unpack(record.schedule.name, data) for data in stored]
        for tick in record.ticks:
            if tick.claim is not None:
                is_left = time.is_over(tick.claim)
                reason = "its scheduler is gone; the next that leads completes it" if is_left else ""
                rows.append(row_of(record, tick, TickOutcome.RUNNING, reason))
        return sorted(rows, key=lambda row: -row.scheduled_at)[:limit]

    # ---- who leads

    async def lead(self, owner: str, seconds: float) -> Claim:
        """Lead, or go on leading, for so long, unless another does. Return the claim of whoever leads."""
        while True:
            found, time = await self.store.read(LEADER), await self.store.time()
            if found is not None:
                claim = msgspec.msgpack.decode(found.data, type=Claim)
                if claim.owner != owner and not time.is_over(claim):
                    return claim
            mine = time.claim(owner, seconds)
            new = Stored(_new_version(), msgspec.msgpack.encode(mine))
            if await self.store.write(LEADER, found.version if found is not None else ABSENT, new):
                return mine

    async def leader(self) -> str:
        """Return the owner that leads; empty: nobody does."""
        found = await self.store.read(LEADER)
        if found is None:
            return ""
        claim = msgspec.msgpack.decode(found.data, type=Claim)
        return "" if (await self.store.time()).is_over(claim) else claim.owner

    async def resign(self, owner: str) -> None:
        """Stop leading, so that another can at once."""
        found = await self.store.read(LEADER)
        if found is not None and msgspec.msgpack.decode(found.data, type=Claim).owner == owner:
            await self.store.remove(LEADER, found.version)

    async def close(self) -> None:
        await self.store.close()


def _new_version() -> str:
    return secrets.token_hex(VERSION_CHARS // 2)


def _encode(record: ScheduleRecord) -> Stored:
    return Stored(_new_version(), _pack(record))


def _pack(value: ScheduleRecord | HistoryRow) -> bytes:
    return msgspec.msgpack.encode(_Versioned(FORMAT, msgspec.Raw(msgspec.msgpack.encode(value))))


def _decode(name: str, stored: Stored) -> Kept:
    return Kept(stored.version, _read(name, stored.data, ScheduleRecord))


def _unpack(name: str, data: bytes) -> HistoryRow:
    return _read(name, data, HistoryRow)


def _read(name: str, data: bytes, kind: type[T]) -> T:
    try:
        versioned = msgspec.msgpack.decode(data, type=_Versioned)
        if versioned.format == FORMAT:
            return msgspec.msgpack.decode(versioned.record, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FormatError(f"a stored schedule cannot be read: {name}", hint="remove it, and add it again") from error
    raise FormatError(
        f"a schedule of another skitter (format {versioned.format}, this one reads {FORMAT}): {name}",
        hint="use the skitter that wrote it",
    )
