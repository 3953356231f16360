"""Records of schedules on a store, their history and who leads, on SQLite and on Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rig.schedule_stores import SERVERS, Open, empty_schedule_stores, stored
from skitter.errors import FormatError
from skitter.model.schedule import HistoryRow, Schedule, ScheduleRecord, Tick, TickOutcome
from skitter.policy.schedule_ticks import StoreTime
from skitter.schedule_store import contract
from skitter.schedule_store.contract import ABSENT, Row
from skitter.schedule_store.records import Change, ScheduleRecords


@pytest.fixture(params=SERVERS)
def url(request: pytest.FixtureRequest, tmp_path: Path, services: Any) -> str:
    return f"sqlite:{tmp_path}/jobs.db" if request.param == "sqlite" else services.need(request.param)["url"]


@pytest.fixture
async def open_store(url: str) -> AsyncIterator[Open]:
    async with empty_schedule_stores(url) as make:
        yield make


def record(name: str = "nightly", **fields: Any) -> ScheduleRecord:
    schedule = Schedule(name=name, command=["crawl", "news.py"], cron="0 2 * * *")
    return ScheduleRecord(schedule=schedule, added_at=1.0, cursor=1.0, **fields)


async def test_records_and_their_history(open_store: Open) -> None:
    records = ScheduleRecords(open_store())
    assert await records.add(record())
    assert not await records.add(record(paused=True))
    tick = Tick(scheduled_at=60.0, start_at=60.0)
    row = HistoryRow(schedule="nightly", scheduled_at=30.0, outcome=TickOutcome.MISSED, reason="because")

    def change(found: ScheduleRecord) -> Change:
        claimed = msgspec.structs.replace(tick, claim=StoreTime(0.0, 0.0).claim("me", 5), started_at=61.0)
        return Change(msgspec.structs.replace(found, ticks=[claimed]), [row])

    changed = await records.change("nightly", change)
    assert changed is not None
    assert await records.get("nightly") == changed
    first, second = await records.history(changed, 10)
    assert (first.outcome, first.scheduled_at, first.started_at, first.node) == ("running", 60.0, 61.0, "me")
    assert second == row
    assert list(await records.all()) == ["nightly"]
    assert await records.remove("nightly")
    assert not await records.remove("nightly")
    assert await records.change("nightly", change) is None


async def test_one_leads_until_its_time_is_over_or_it_resigns(open_store: Open) -> None:
    first, second = ScheduleRecords(open_store()), ScheduleRecords(open_store())
    assert (await first.lead("first", 60)).owner == "first"
    assert (await second.lead("second", 60)).owner == "first"
    assert await second.leader() == "first"
    assert (await first.lead("first", 0)).owner == "first"
    assert await second.leader() == ""
    assert (await second.lead("second", 60)).owner == "second"
    assert (await first.lead("first", 60)).owner == "second"
    await first.resign("first")
    assert await first.leader() == "second"
    await second.resign("second")
    assert (await first.lead("first", 60)).owner == "first"
    assert await first.all() == {}


async def test_only_one_of_many_leads(open_store: Open) -> None:
    owners = [f"owner-{number}" for number in range(8)]
    claims = await asyncio.gather(*(ScheduleRecords(open_store()).lead(owner, 60) for owner in owners))
    assert len({claim.owner for claim in claims}) == 1


async def test_a_record_of_another_format_is_refused(open_store: Open) -> None:
    store = open_store()
    await store.write("a", ABSENT, stored(1, msgspec.msgpack.encode([99, {}])))
    with pytest.raises(FormatError, match="format 99"):
        await ScheduleRecords(store).get("a")
    await store.write("b", ABSENT, stored(1, b"\xff\xfe"))
    with pytest.raises(FormatError, match="cannot be read: b"):
        await ScheduleRecords(store).get("b")


async def test_the_last_rows_are_kept_by_when_they_were_written(
    open_store: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("sqlite_store", "redis_store"):
        monkeypatch.setattr(f"skitter.schedule_store.{module}.ROWS_KEPT", 3)
    store = open_store()
    version = ABSENT
    for number, at in enumerate([900.0, 1.0, 2.0, 900.0, 3.0, 4.0]):
        await store.write("a", version, stored(number), [Row(at, b"%d" % at)])
        version = stored(number).version
    assert await store.rows("a", 10) == [b"4", b"3", b"2"], "a time of a clock that was wrong does not stay for ever"
    assert contract.ROWS_KEPT > 1000
