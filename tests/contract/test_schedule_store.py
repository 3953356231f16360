"""The promises of a store of schedules, on SQLite and on Redis."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from skitter.errors import ExtraMissingError, FormatError, ScheduleStoreError, UsageError
from skitter.model.schedule import HistoryRow, Schedule, ScheduleRecord, Tick, TickOutcome
from skitter.policy.schedule_ticks import StoreTime
from skitter.schedule_store import contract
from skitter.schedule_store.contract import ABSENT, Row, ScheduleStore, Stored
from skitter.schedule_store.records import Change, ScheduleRecords
from skitter.schedule_store.store_urls import open_schedule_store

Open = Callable[[], ScheduleStore]


@pytest.fixture(params=["sqlite", "redis", "redis-6.2", "redis-sentinel", "redis-cluster"])
def url(request: pytest.FixtureRequest, tmp_path: Path, services: Any) -> str:
    if request.param == "sqlite":
        return f"sqlite:{tmp_path}/jobs.db"
    return services.need(request.param)["url"]


@pytest.fixture
async def open_store(url: str) -> AsyncIterator[Open]:
    opened: list[ScheduleStore] = []

    def make() -> ScheduleStore:
        opened.append(open_schedule_store(url, create=True))
        return opened[-1]

    # A server is shared by the tests of this process.
    store = make()
    for name, found in (await store.read_all()).items():
        await store.remove(name, found.version)
    yield make
    for store in opened:
        await store.close()


def stored(number: int, data: bytes = b"data") -> Stored:
    return Stored(f"{number:016}", data)


async def test_a_document_is_made_once(open_store: Open) -> None:
    stores = [open_store() for _ in range(8)]
    made = await asyncio.gather(
        *(store.write("a", ABSENT, stored(number, b"%d" % number)) for number, store in enumerate(stores))
    )
    assert made.count(True) == 1
    assert await stores[0].read("a") == stored(made.index(True), b"%d" % made.index(True))
    assert await stores[0].read("b") is None


async def test_of_writers_that_have_read_the_same_one_writes(open_store: Open) -> None:
    stores = [open_store() for _ in range(4)]
    await stores[0].write("a", ABSENT, stored(0))

    async def count(store: ScheduleStore) -> int:
        done = 0
        while done < 25:
            found = await store.read("a")
            assert found is not None
            number = int(found.version)
            done += await store.write("a", found.version, stored(number + 1))
        return done

    await asyncio.gather(*map(count, stores))
    assert (await stores[0].read("a")) == stored(100)


async def test_a_document_that_was_removed_and_made_again_is_another(open_store: Open) -> None:
    store = open_store()
    await store.write("a", ABSENT, stored(1), [Row(1.0, b"row")])
    assert not await store.remove("a", stored(2).version)
    assert await store.remove("a", stored(1).version)
    assert not await store.remove("a", ABSENT)
    assert await store.rows("a", 10) == []
    assert await store.write("a", ABSENT, stored(3))
    assert not await store.write("a", stored(1).version, stored(4))
    assert await store.read_all() == {"a": stored(3)}


async def test_rows_come_with_their_document_or_not_at_all(open_store: Open) -> None:
    store = open_store()
    await store.write("a", ABSENT, stored(1), [Row(1.0, b"1"), Row(3.5, b"3")])
    assert not await store.write("a", ABSENT, stored(2), [Row(9.0, b"9")])
    await store.write("a", stored(1).version, stored(2), [Row(2.0, b"2"), Row(1.0, b"one")])
    await store.write("b", ABSENT, stored(1), [Row(7.0, b"7")])
    assert await store.rows("a", 10) == [b"3", b"2", b"one"]
    assert await store.rows("a", 1) == [b"3"]


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


async def test_the_clock_is_the_same_for_all_and_goes_on(open_store: Open) -> None:
    first, second = await open_store().time(), await open_store().time()
    assert abs(first.now - time.time()) < 60
    assert first.boot == second.boot
    assert first.steady <= second.steady <= first.steady + 60


# ---- records


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


# ---- places


async def test_reading_makes_no_file(tmp_path: Path) -> None:
    store = open_schedule_store(f"sqlite:{tmp_path}/sub/jobs.db", create=False)
    assert await store.read_all() == {}
    assert await store.read("a") is None
    await store.close()
    assert os.listdir(tmp_path) == []  # noqa: PTH208  a look in passing


async def test_the_file_is_beside_the_frontier_and_private(tmp_path: Path) -> None:
    store = open_schedule_store(f"sqlite:{tmp_path}/jobs.db", create=True)
    await store.write("a", ABSENT, stored(1))
    await store.close()
    (name,) = os.listdir(tmp_path)  # noqa: PTH208  as above
    mode = stat.S_IMODE(os.stat(tmp_path / name).st_mode)  # noqa: PTH116  as above
    assert (name, mode) == ("jobs.db-schedules", 0o600)


async def test_other_files_are_refused(tmp_path: Path) -> None:
    from skitter.frontier.sqlite import sqlite_frontier

    frontier = sqlite_frontier(tmp_path / "jobs.db-schedules", "job")
    await frontier.close()
    store = open_schedule_store(f"sqlite:{tmp_path}/jobs.db", create=True)
    with pytest.raises(FormatError, match="not a schedules file"):
        await store.read_all()
    await store.close()
    (tmp_path / "text.db-schedules").write_text("not a database" * 100)
    os.chmod(tmp_path / "text.db-schedules", 0o600)  # noqa: PTH101  as private_files expects it
    store = open_schedule_store(f"sqlite:{tmp_path}/text.db", create=True)
    with pytest.raises(ScheduleStoreError, match="cannot be used"):
        await store.read_all()
    await store.close()


async def test_a_server_that_is_away_is_named(own_redis: Any) -> None:
    server = own_redis()
    store = open_schedule_store(server.url, create=True)
    await store.read_all()
    server.kill()
    with pytest.raises(ScheduleStoreError, match="cannot be reached") as error:
        await store.read_all()
    assert error.value.hint
    await store.close()


@pytest.mark.parametrize("url", ["memory:", "https://master:8601", "nonsense", "sqlite:"])
def test_where_there_is_no_place_for_schedules(url: str) -> None:
    with pytest.raises((UsageError, ExtraMissingError), match="cannot store schedules"):
        open_schedule_store(url, create=True)
