"""The promises of a store of schedules, on SQLite and on Redis."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rig.schedule_stores import SERVERS, Open, empty_schedule_stores, stored
from skitter.errors import ExtraMissingError, FormatError, ScheduleStoreError, UsageError
from skitter.schedule_store.contract import ABSENT, Row, ScheduleStore
from skitter.testing.frontiers import open_frontier, open_schedule_store


@pytest.fixture(params=SERVERS)
def url(request: pytest.FixtureRequest, tmp_path: Path, services: Any) -> str:
    return f"sqlite:{tmp_path}/jobs.db" if request.param == "sqlite" else services.need(request.param)["url"]


@pytest.fixture
async def open_store(url: str) -> AsyncIterator[Open]:
    async with empty_schedule_stores(url) as make:
        yield make


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


async def test_the_clock_is_the_same_for_all_and_goes_on(open_store: Open) -> None:
    first, second = await open_store().time(), await open_store().time()
    assert abs(first.now - time.time()) < 60
    assert first.boot == second.boot
    assert first.steady <= second.steady <= first.steady + 60


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
    frontier = open_frontier(f"sqlite:{tmp_path}/jobs.db-schedules", "job")
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
