"""Schedule records on top of a store: versioned encoding, changes by compare and set, leadership."""

from __future__ import annotations

import secrets
import shlex
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeVar

import msgspec

from skitter.audit.entry import DONE, Draft
from skitter.audit.trail import OpenMutation, recorded
from skitter.errors import FormatError
from skitter.model.audit import Actor
from skitter.model.schedule import Claim, HistoryRow, Schedule, ScheduleRecord, TickOutcome
from skitter.policy.schedule_ticks import StoreTime, row_of
from skitter.schedule_store.contract import ABSENT, VERSION_CHARS, Row, ScheduleStore, Stored

T = TypeVar("T")
FORMAT = 1
LEADER = "#leader"
"""Document that names the leader. No schedule has this name, because names do not contain ``#``."""


class _Versioned(msgspec.Struct, array_like=True):
    format: int
    record: msgspec.Raw


class Change(NamedTuple):
    """Record to store, and rows to add to its history."""

    record: ScheduleRecord
    rows: Sequence[HistoryRow] = ()


class Mutation(NamedTuple):
    """Change by an operator, for the audit trail."""

    actor: Actor
    action: str
    schedule: str


class Kept(NamedTuple):
    """Stored record and its version."""

    version: str
    record: ScheduleRecord


class ScheduleRecords:
    """Schedules of one store."""

    def __init__(self, store: ScheduleStore) -> None:
        self.store = store

    async def time(self) -> StoreTime:
        """Return the current time of the store."""
        return await self.store.time()

    async def all(self) -> dict[str, Kept]:
        """Return all schedules by name."""
        found = await self.store.read_all()
        return {name: _decode(name, stored) for name, stored in found.items() if name != LEADER}

    async def get(self, name: str) -> ScheduleRecord | None:
        """Return a schedule, or None if it does not exist."""
        found = await self.store.read(name)
        return _decode(name, found).record if found is not None else None

    async def add(self, record: ScheduleRecord, by: Mutation | None = None) -> bool:
        """Store a new schedule; return False if the name exists.

        ``by`` describes the change for the audit trail, here and below; None writes no entry.
        """
        name = record.schedule.name
        if by is None:
            return await self.store.write(name, ABSENT, _encode(record))
        if await self.store.read(name) is not None:
            return False
        async with self._recorded(by, None, record) as entry:
            added = await self.store.write(name, ABSENT, _encode(record), entry=entry.draft)
            entry.end(made=added)
        return added

    async def change(
        self, name: str, step: Callable[[ScheduleRecord], Change | None], by: Mutation | None = None
    ) -> ScheduleRecord | None:
        """Change a record with ``step``, which gets the current record and returns None to leave it unchanged.

        ``step`` is called again if another process changed the record first. Return the resulting record, or None if
        the schedule does not exist.
        """
        while True:
            found = await self.store.read(name)
            if found is None:
                return None
            before = _decode(name, found)
            change = step(before.record)
            if change is None:
                return before.record
            if by is None:
                is_changed = await self.swap(before, change)
            else:
                async with self._recorded(by, before.record, change.record) as entry:
                    is_changed = await self.swap(before, change, entry.draft)
                    entry.end(made=is_changed)
            if is_changed:
                return change.record

    async def swap(self, before: Kept, change: Change, entry: Draft | None = None) -> bool:
        """Store a changed record; return False if it was changed since ``before`` was read."""
        rows = [Row(row.scheduled_at, _pack(row)) for row in change.rows]
        name = before.record.schedule.name
        return await self.store.write(name, before.version, _encode(change.record), rows, entry)

    async def remove(self, name: str, by: Mutation | None = None) -> bool:
        """Remove a schedule and its history; return False if it did not exist."""
        while (found := await self.store.read(name)) is not None:
            if by is None:
                is_removed = await self.store.remove(name, found.version)
            else:
                async with self._recorded(by, _readable(name, found), None) as entry:
                    is_removed = await self.store.remove(name, found.version, entry.draft)
                    entry.end(made=is_removed)
            if is_removed:
                return True
        return False

    @asynccontextmanager
    async def _recorded(
        self, by: Mutation, before: ScheduleRecord | None, after: ScheduleRecord | None
    ) -> AsyncIterator[_RecordedChange]:
        """Yield the audit entry of a change. It is written with it, or around it if the store cannot do that."""
        draft = Draft(
            actor=by.actor,
            action=f"schedule.{by.action}",
            job=(after or before or _NOBODY).schedule.job,
            details={"schedule": by.schedule},
            before=_told(before),
        )
        trail = self.store.trail()
        if trail is None:
            yield _RecordedChange(msgspec.structs.replace(draft, after=_told(after), outcome=DONE), None, {})
            return
        async with recorded(trail, draft) as mutation:
            yield _RecordedChange(None, mutation, _told(after))

    async def history(self, record: ScheduleRecord, limit: int) -> list[HistoryRow]:
        """Return the results of the last ticks, latest first, including running ticks."""
        stored, time = await self.store.rows(record.schedule.name, limit), await self.store.time()
        rows = [_unpack(record.schedule.name, data) for data in stored]
        for tick in record.ticks:
            if tick.claim is not None:
                is_left = time.is_over(tick.claim)
                reason = "its scheduler died; the next leader completes it" if is_left else ""
                rows.append(row_of(record, tick, TickOutcome.RUNNING, reason))
        return sorted(rows, key=lambda row: -row.scheduled_at)[:limit]

    # ---- leadership

    async def lead(self, owner: str, seconds: float) -> Claim:
        """Acquire or renew leadership for ``seconds``, unless another owner leads; return the claim of the leader."""
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
        """Return the owner that leads, or an empty string if there is no leader."""
        found = await self.store.read(LEADER)
        if found is None:
            return ""
        claim = msgspec.msgpack.decode(found.data, type=Claim)
        return "" if (await self.store.time()).is_over(claim) else claim.owner

    async def resign(self, owner: str) -> None:
        """Give up leadership, so that another owner can lead at once."""
        found = await self.store.read(LEADER)
        if found is not None and msgspec.msgpack.decode(found.data, type=Claim).owner == owner:
            await self.store.remove(LEADER, found.version)

    async def close(self) -> None:
        """Close the store."""
        await self.store.close()


class _RecordedChange(NamedTuple):
    """Audit entry of one attempt to change a schedule."""

    draft: Draft | None
    """Entry to write with the change; None if it is written around the change."""
    mutation: OpenMutation | None
    after: dict[str, Any]

    def end(self, *, made: bool) -> None:
        """Set the outcome of an entry that is written around the change."""
        if self.mutation is not None:
            self.mutation.after = self.after if made else {}
            self.mutation.outcome = DONE if made else "refused: another process changed it first; tried again"


_NOBODY = ScheduleRecord(schedule=Schedule(name="", command=[]), added_at=0.0, cursor=0.0)


def _told(record: ScheduleRecord | None) -> dict[str, Any]:
    """Return the fields of a schedule for an audit entry."""
    if record is None:
        return {}
    usual = msgspec.to_builtins(_NOBODY.schedule)
    fields = msgspec.to_builtins(record.schedule)
    told = {name: value for name, value in fields.items() if value != usual.get(name) and name != "name"}
    manual = [tick.scheduled_at for tick in record.ticks if tick.manual]
    # A command is shown as one line, so that an option and its value stay together if the value is a secret.
    shown = {"command": shlex.join(record.schedule.command), "paused": record.paused}
    return told | shown | ({"manual_ticks": manual} if manual else {})


def _readable(name: str, found: Stored) -> ScheduleRecord | None:
    """Return the record, or None if it is unreadable: an unreadable record can still be removed."""
    try:
        return _decode(name, found).record
    except FormatError:
        return None


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
        raise FormatError(f"a stored schedule cannot be read: {name}", hint="remove it and add it again") from error
    raise FormatError(
        f"written by another version of skitter (format {versioned.format}, this one reads {FORMAT}): schedule {name}",
        hint="use the skitter that wrote it",
    )
