"""Faults that are planted in a job in the middle of a crawl: ``fsck`` finds each, and mends it where nothing is lost.

After a repair the crawl goes on to its end, and every page is crawled once.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
import pytest_asyncio
from rig.job_at_work import ADDRESS, JOB, SINKS, JobAtWork

from skitter.app.views.fsck import check_job
from skitter.frontier import contract
from skitter.frontier.contract import Frontier
from skitter.frontier.memory import MemoryStore, memory_frontier
from skitter.frontier.redis import redis_frontier, scripts
from skitter.frontier.redis.client import RedisServer
from skitter.frontier.redis.jobs import prefixes_of
from skitter.frontier.redis.shards.shard_set import shard_number
from skitter.frontier.sqlite import sqlite_frontier
from skitter.frontier.sqlite.row_codec import encode
from skitter.model.consistency import CODES
from skitter.model.host import Host, Phase
from skitter.model.job import SinkProgress
from skitter.model.request import Fingerprinter, Request
from skitter.redis_driver.address import parse_address
from skitter.testing.clock import FakeClock

HOSTS = tuple(f"h{n}" for n in range(7))
SHARDS = 3


def key_of(host: int) -> str:
    return f"http://{HOSTS[host]}.example"


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "BURY_BATCH", 1)


class Fault(NamedTuple):
    code: str
    plant: Any
    mendable: bool = True


async def goes_on(job: JobAtWork, before: set[str]) -> None:
    """The crawl ends, and every page that was not crawled before is crawled once."""
    done = await job.finish()
    counts = await job.frontier.counts()
    assert [url for url, times in Counter(done).items() if times > 1] == []
    # What has ended before is not crawled again. The queue of the last host dies, or is crawled.
    ended = before | {f"{job.key_of(0)}/{name}" for name in ("dead", "excluded", "redirected")}
    down = {url for url in job.urls if url.startswith(job.key_of(6))}
    assert set(done) - down == job.urls - ended - down
    assert (counts.unfinished, counts.seen) == (0, len(job.urls))
    assert counts.done == len(before) + len(done)
    report = await job.frontier.check_consistency()
    assert report.findings == []


async def is_found(frontier: Frontier, fault: Fault) -> None:
    """It is found; a repair mends it if it can be mended, and says so if not."""
    report = await check_job(frontier)
    assert fault.code in report.counts, report
    assert set(report.counts) <= set(CODES)
    repaired = await check_job(frontier, repair=True)
    left = await check_job(frontier)
    if fault.mendable:
        assert (left.findings, left.unchecked) == ([], []), repaired
        assert repaired.mended == repaired.total
        assert all(finding.mended for finding in repaired.findings)
    else:
        assert left.counts, "nothing is told of what cannot be mended"
        assert repaired.mended < repaired.total


# ---- memory, where nothing can be planted but in its records


async def test_a_job_in_memory_is_consistent_and_mends_its_records() -> None:
    clock = FakeClock()
    store = MemoryStore(clock.of_store())
    job = JobAtWork(memory_frontier(JOB, store), clock, HOSTS)
    await job.fill()
    assert (await job.frontier.check_consistency()).findings == []
    record, host = store.tables.load_job(), store.tables.hosts([key_of(2)])[key_of(2)]
    assert record is not None
    record.queued += 1
    host.waiting, host.phase = False, Phase.IDLE
    store.tables.save_hosts([host])
    report = await job.frontier.check_consistency(repair=True)
    assert (report.counts, report.mended) == ({"host_queue": 1, "count": 1}, 2)
    await goes_on(job, {f"{key_of(0)}/done1", f"{key_of(0)}/done2", f"{key_of(1)}/first"})


# ---- SQLite

Plant = Callable[[sqlite3.Connection], object]


def job_with(**changes: Any) -> Plant:
    """Fields of the job's record; a number that begins with + or - is added."""

    def plant(connection: sqlite3.Connection) -> None:
        record = msgspec.msgpack.decode(connection.execute("SELECT record FROM jobs").fetchone()[0])
        for name, value in changes.items():
            record[name] = record[name] + int(value) if isinstance(value, str) and value[0] in "+-" else value
        connection.execute("UPDATE jobs SET record = ?", (encode(record),))

    return plant


def host_with(number: int, *, columns: bool = True, **changes: Any) -> Plant:
    """Fields of a host's record, and what its row has of it."""

    def plant(connection: sqlite3.Connection) -> None:
        key = key_of(number)
        found = connection.execute("SELECT record FROM hosts WHERE key = ?", (key,)).fetchone()
        host = msgspec.msgpack.decode(found[0], type=Host)
        for name, value in changes.items():
            setattr(host, name, value)
        connection.execute("UPDATE hosts SET record = ? WHERE key = ?", (encode(host), key))
        if columns:
            connection.execute(
                "UPDATE hosts SET phase = ?, top = ?, turn = ? WHERE key = ?", (host.phase, host.top, host.turn, key)
            )

    return plant


def sql(statement: str, *values: object) -> Plant:
    return lambda connection: connection.execute(statement, values)


def ghost(connection: sqlite3.Connection) -> None:
    """A host with a record that says that something waits."""
    host = Host("http://ghost.example", waiting=True, phase=Phase.READY, run=1)
    values = (1, host.key, host.phase, 0, host.turn, 0.0, encode(host))
    connection.execute("INSERT INTO hosts (job, key, phase, top, turn, due, record) VALUES (?, ?, ?, ?, ?, ?, ?)", values)


def lease_of_done(connection: sqlite3.Connection) -> None:
    """A page that is done is leased as well."""
    connection.execute(
        "INSERT INTO holds SELECT job, work, (SELECT id FROM requests WHERE place = 3 LIMIT 1), 1, worker,"
        " deadline, alone, record FROM holds WHERE work = 0 LIMIT 1"
    )


def lease_record(place: int, value: object) -> Plant:
    """One field of holds.record, of the page that has staged something."""

    def plant(connection: sqlite3.Connection) -> None:
        id_, record = connection.execute(
            "SELECT holds.id, record FROM holds WHERE work = 0 AND id IN (SELECT id FROM staged)"
        ).fetchone()
        fields = msgspec.msgpack.decode(record)
        fields[place] = value
        connection.execute("UPDATE holds SET record = ? WHERE work = 0 AND id = ?", (encode(fields), id_))

    return plant


def sink_at(target: str, position: int) -> Plant:
    return sql("UPDATE sinks SET progress = ? WHERE target = ?", encode(SinkProgress(position)), target)


_HELD = "(SELECT id FROM holds WHERE work = 0 ORDER BY epoch DESC LIMIT 1)"
_QUEUED = "(SELECT min(number) FROM requests WHERE place = 0 AND id NOT IN (SELECT id FROM holds))"
IN_FILE: dict[str, Fault] = {
    **{
        f"one more {name}": Fault("count", job_with(**{name: "+1"}))
        for name in ("queued", "delayed", "leased", "done", "redirected", "dead", "excluded")
    },
    "one less queued": Fault("count", job_with(queued="-1")),
    "a class of errors forgotten": Fault("errors_count", job_with(errors={})),
    "parked hosts": Fault("parked_count", job_with(parked="+1")),
    "next_seq in use": Fault("sequence", job_with(next_seq=3)),
    "next_epoch in use": Fault("sequence", job_with(next_epoch=1)),
    "position in use": Fault("sequence", job_with(position="-1")),
    "leases looked at too late": Fault("lease_deadline", job_with(reap_at=1e10)),
    "finished with a queue": Fault("state", job_with(state="finished")),
    "a queue that its host forgot": Fault("host_queue", host_with(2, waiting=False, phase=Phase.IDLE)),
    "a host that waits for nothing": Fault("host_queue", ghost),
    "a priority too low": Fault("host_queue", host_with(2, top=3)),
    "one more in flight": Fault("host_in_flight", host_with(0, in_flight=3)),
    "one less in flight": Fault("host_in_flight", host_with(0, in_flight=1)),
    "a gate without a lease": Fault("host_in_flight", host_with(2, gate=True)),
    "a gate forgotten": Fault("host_in_flight", host_with(5, gate=False)),
    "idle with a queue": Fault("host_phase", host_with(2, phase=Phase.IDLE)),
    "full with nothing in flight": Fault("host_phase", host_with(2, phase=Phase.FULL)),
    "ready before its pause is over": Fault("host_phase", host_with(4, phase=Phase.READY)),
    "given up without a reason": Fault("host_phase", host_with(6, given_up=None)),
    "a reason without being given up": Fault("host_reason", host_with(2, given_up=("connect", "refused"))),
    "the column of the phase": Fault("host_index", sql("UPDATE hosts SET phase = 0 WHERE key = ?", key_of(2))),
    "the column of the priority": Fault("host_index", sql("UPDATE hosts SET top = 7 WHERE key = ?", key_of(2))),
    "the column of the turn": Fault("host_index", sql("UPDATE hosts SET turn = 7 WHERE key = ?", key_of(2))),
    "the column of the time": Fault("host_index", sql("UPDATE hosts SET due = 7.0 WHERE key = ?", key_of(4))),
    "pages of a host": Fault("pages_count", host_with(0, pages=40)),
    "not in the list of parked hosts": Fault("host_index", sql("DELETE FROM parked")),
    "parked as well": Fault("host_index", sql("INSERT INTO parked VALUES (1, ?, ?, 0, 0)", key_of(2), ADDRESS)),
    "parked at another address": Fault("host_index", sql("UPDATE parked SET address = '10.0.0.9'")),
    "one more at an address": Fault("address_count", sql("UPDATE addresses SET leases = leases + 1")),
    "an address forgotten": Fault("address_count", sql("DELETE FROM addresses")),
    "an address of no lease": Fault("address_count", sql("INSERT INTO addresses VALUES (1, '10.0.0.9', 2)")),
    "leased and done": Fault("two_places", lease_of_done),
    "leased and delayed": Fault("two_places", sql(f"UPDATE requests SET place = 1 WHERE id = {_HELD}")),
    "a lease of another host": Fault("lease_work", lease_record(0, "http://ghost.example")),
    "a lease of another request": Fault("lease_work", lease_record(3, 1)),
    "a lease of nothing": Fault("no_request", sql(f"DELETE FROM requests WHERE id = {_HELD}"), mendable=False),
    "two leases of an epoch": Fault("lease_epoch", sql("UPDATE holds SET epoch = 50 WHERE work = 0")),
    "a seeding that is over": Fault(
        "lease_work", sql("INSERT INTO holds SELECT job, 2, 0, 7, worker, deadline, 0, record FROM holds LIMIT 1")
    ),
    "a lease beside one alone": Fault(
        "lease_alone", sql("UPDATE holds SET alone = 1 WHERE work = 0"), mendable=False
    ),
    "staged for nobody": Fault("staged", sql("INSERT INTO staged VALUES (1, 5, 3, 0, 0, x'00')")),
    "staged for an older epoch": Fault(
        "staged", sql("INSERT INTO staged SELECT job, id, epoch - 1, place, kind, record FROM staged")
    ),
    "a lease that forgot what it staged": Fault("staged", lease_record(2, False)),
    "an item missing": Fault("outbox", sql("DELETE FROM outbox WHERE position = 2"), mendable=False),
    "the newest item missing": Fault("outbox", sql("DELETE FROM outbox WHERE position = 3"), mendable=False),
    "an item that a sink lacks": Fault("sink_position", sql("DELETE FROM outbox WHERE position = 1"), mendable=False),
    "a sink ahead of the items": Fault("sink_position", sink_at(SINKS[1], 99), mendable=False),
    "items that every sink has": Fault("outbox_leftover", sink_at(SINKS[1], 2)),
    "items without a sink": Fault("outbox_leftover", sql("DELETE FROM sinks"), mendable=False),
    "a request in no place": Fault("no_place", sql(f"UPDATE requests SET place = 2 WHERE number = {_QUEUED}")),
    "a permit lost": Fault("permit", sql("DELETE FROM permits WHERE number = 1")),
    "a permit of no host": Fault("permit", sql("INSERT INTO permits VALUES (1, 3, 'http://ghost.example')")),
    "permits with a gap": Fault("permit", sql("UPDATE permits SET number = 9 WHERE number = 2")),
    "a robots.txt missing": Fault("robots", sql("DELETE FROM robots WHERE host = ?", key_of(2))),
    "a robots.txt of another version": Fault("robots", host_with(2, robots_version=1)),
    "a card of nobody": Fault("worker_card", sql("DELETE FROM workers WHERE worker = 'w1'")),
    "a value that cannot be read": Fault("unreadable", sql("UPDATE requests SET history = x'c1'"), mendable=False),
    "a record that cannot be read": Fault("unreadable", sql("UPDATE jobs SET record = x'c1'"), mendable=False),
    "a request of no host": Fault("unreadable", sql("UPDATE requests SET host = 999 WHERE place = 1"), mendable=False),
}


class File:
    """The job in a file, as it was and with a fault."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._clock = FakeClock()
        self._whole = b""

    async def fill(self) -> None:
        job = self.open()
        await job.fill()
        self._urls = job.urls
        await job.frontier.close()
        self._whole = self._path.read_bytes()
        self._now = self._clock()

    def open(self) -> JobAtWork:
        return JobAtWork(sqlite_frontier(self._path, JOB, clock=self._clock.of_store()), self._clock, HOSTS)

    def damage(self, plant: Plant) -> JobAtWork:
        self._path.write_bytes(self._whole)
        with closing(sqlite3.connect(self._path)) as connection, connection:
            plant(connection)
        job = self.open()
        job.urls = self._urls
        return job


DONE = {f"{key_of(0)}/done1", f"{key_of(0)}/done2", f"{key_of(1)}/first"}


@pytest_asyncio.fixture
async def file(tmp_path: Path) -> File:
    file = File(tmp_path / "job.db")
    await file.fill()
    return file


async def test_a_job_in_a_file_at_work_is_consistent(file: File) -> None:
    job = file.open()
    report = await check_job(job.frontier)
    assert (report.findings, report.unchecked) == ([], [])
    assert report.checked["requests"] == len(job.urls) or report.checked["requests"] > 30
    await job.frontier.close()


@pytest.mark.parametrize("name", IN_FILE)
async def test_a_fault_in_a_file_is_found_and_mended(file: File, name: str) -> None:
    fault = IN_FILE[name]
    job = file.damage(fault.plant)
    try:
        await is_found(job.frontier, fault)
        if fault.mendable:
            await goes_on(job, DONE)
    finally:
        await job.frontier.close()


# ---- Redis: faults are planted by commands, and in packed records by the functions of the scripts

Words = tuple[Any, ...]


def lua(body: str) -> str:
    """A script that changes the job, which it has loaded. ``{2}`` is the key of the third host."""
    shared, values = scripts._shared()
    return shared + scripts.inline(f"load_job();\n(function()\n{body}\nend)()\nreturn 1", dict(values))


def host_lua(number: int, change: str) -> str:
    """Change the record of a host, ``h``, whose key is ``key``."""
    return (
        f"local key = '{{{number}}}' local h = unpack_host(call('HGET', BASE .. 'hosts', key)) {change}"
        " call('HSET', BASE .. 'hosts', key, pack_host(h))"
    )


def job_lua(change: str) -> str:
    return f"{change} save_job()"


def row_lua(state: str, change: str) -> str:
    """With the ``id`` and the ``row`` of the first request in this state."""
    return (
        "local id, row local found = call('HGETALL', RUN .. 'requests') for place = 1, #found, 2 do"
        f" local one = unpack_row(found[place + 1], 1) if one[PLACE] == AT_{state} and (not id or found[place] < id) then"
        f" id, row = found[place], one end end {change}"
    )


def hold_lua(name: str, change: str) -> str:
    """With the lease ``hold`` and its ``key``: of the page that is called so, or of the robots.txt of a host."""
    return (
        "local key, hold local found = call('HGETALL', RUN .. 'holds') for place = 1, #found, 2 do"
        " local one = unpack_hold(found[place + 1])"
        f" local name = work_of(found[place]) == PAGE and row_of(one)[PAYLOAD] or one[HOLD_HOST]"
        f" if string.find(name, '{name}', 1, true) then key, hold = found[place], one end end {change}"
    )


_SET = "call('HSET', RUN .. 'holds', key, pack_hold(hold[EPOCH], hold[LEASED_AT], hold[DEADLINE], hold[ALONE], hold[STAGED],"
_SET += " hold[WORKER], hold[HOLD_HOST], hold[COUNTED]) .. string.sub(hold[STORED], hold[ROW_AT]))"
_QUEUE_OF_2 = "local queue = RUN .. 'q:0:{2}' local element = call('LINDEX', queue, 0)"
_SEEN = "for n = 0, J.buckets - 1 do call('SREM', RUN .. 'seen:' .. n, decimal) end"
IN_REDIS: dict[str, Fault] = {
    **{
        f"one more {name}": Fault("count", job_lua(f"J.{name} = J.{name} + 1"))
        for name in ("queued", "delayed", "leased", "done", "dead", "excluded")
    },
    "one more redirected": Fault("ended_count", job_lua("J.redirected = J.redirected + 1"), mendable=False),
    "a class of errors forgotten": Fault("errors_count", "call('DEL', RUN .. 'errors')"),
    "a class of errors of none": Fault("errors_count", "call('HSET', RUN .. 'errors', 'tls', 4)"),
    "parked hosts": Fault("parked_count", job_lua("J.parked = 7")),
    "a queue shown too long": Fault("crowded", job_lua("J.crowded['{2}'] = 77")),
    "next_seq in use": Fault("sequence", job_lua("J.next_seq = 3")),
    "an epoch of the future": Fault("sequence", hold_lua("/held", f"hold[EPOCH] = J.next_epoch + 300 {_SET}")),
    "one more queued at a host": Fault("host_queue", host_lua(2, "h[QUEUED] = h[QUEUED] + 1")),
    "a list longer than known": Fault("host_queue", host_lua(2, "h[LEVELS][2] = h[LEVELS][2] - 1")),
    "a priority too low": Fault("host_queue", host_lua(2, "h[TOP] = 3")),
    "more delayed and suspect": Fault("host_queue", host_lua(4, "h[AWAY] = h[AWAY] + 1")),
    "a list of unknown priority": Fault(
        "host_queue", f"{_QUEUE_OF_2} call('LPOP', queue) call('RPUSH', RUN .. 'q:9:{{2}}', element)"
    ),
    "a request lost from its list": Fault("host_queue", "call('LPOP', RUN .. 'q:0:{2}')", mendable=False),
    "one more in flight": Fault("host_in_flight", host_lua(0, "h[IN_FLIGHT] = 3")),
    "one less in flight": Fault("host_in_flight", host_lua(0, "h[IN_FLIGHT] = 1")),
    "in flight without a lease": Fault("host_in_flight", host_lua(2, "h[IN_FLIGHT] = 1")),
    "a gate without a lease": Fault("host_in_flight", host_lua(2, "h[GATE] = 1")),
    "a gate forgotten": Fault("host_in_flight", host_lua(5, "h[GATE] = 0")),
    "idle with a queue": Fault("host_phase", host_lua(2, "h[PHASE] = IDLE call('ZREM', RUN .. 'ready:57', key)")),
    "full with nothing in flight": Fault(
        "host_phase", host_lua(2, "h[PHASE] = FULL call('ZREM', RUN .. 'ready:57', key)")
    ),
    "ready before its pause is over": Fault("host_phase", host_lua(4, "h[PHASE] = READY")),
    "no reason for being given up": Fault("host_reason", "call('DEL', RUN .. 'reasons')"),
    "a reason without being given up": Fault(
        "host_reason", "call('HSET', RUN .. 'reasons', '{2}', pack({'connect', 'refused'}))"
    ),
    "not among the ready": Fault("host_index", "call('ZREM', RUN .. 'ready:57', '{2}')"),
    "ready at another turn": Fault("host_index", "call('ZADD', RUN .. 'ready:57', 7, '{2}')"),
    "ready with two priorities": Fault("host_index", "call('ZADD', RUN .. 'ready:3', 7, '{2}')"),
    "a priority not looked at": Fault("host_index", "call('DEL', RUN .. 'tops')"),
    "not among the waiting": Fault("host_index", "call('ZREM', RUN .. 'waiting', '{4}')"),
    "waiting as well": Fault("host_index", "call('ZADD', RUN .. 'waiting', 7, '{2}')"),
    "not in the list of parked hosts": Fault("host_index", "call('DEL', RUN .. 'parked')"),
    "parked as well": Fault("host_index", "call('ZADD', RUN .. 'parked', 0, parked_name('{2}', unpack_host(call('HGET', BASE .. 'hosts', '{2}'))))"),
    "not in the list of those given up": Fault("host_index", "call('DEL', RUN .. 'given_up')"),
    "given up as well": Fault("host_index", "call('ZADD', RUN .. 'given_up', 0, '{2}')"),
    "a host of no record in an index": Fault("host_index", "call('ZADD', RUN .. 'waiting', 7, 'http://ghost.example')"),
    "a host without its record": Fault("host_missing", "call('HDEL', BASE .. 'hosts', '{3}')"),
    "not seen, and queued": Fault(
        "not_seen", f"local decimal = ARGV[2] {_SEEN}"
    ),
    "seen where nobody looks": Fault("seen_bucket", f"local decimal = ARGV[2] {_SEEN} call('SADD', RUN .. 'seen:7', decimal)"),
    "a seen id lost": Fault("ended_count", f"local decimal = ARGV[3] {_SEEN}", mendable=False),
    "delayed, and in no index": Fault("no_place", row_lua("DELAYED", "call('ZREM', RUN .. 'delayed', id)")),
    "delayed, and not found by its host": Fault(
        "no_place", row_lua("DELAYED", "call('ZREM', RUN .. 'away:' .. row[HOST], id)")
    ),
    "delayed until another time": Fault("request_index", row_lua("DELAYED", "call('ZADD', RUN .. 'delayed', 5, id)")),
    "suspect, and in no index": Fault("no_place", row_lua("SUSPECT", "call('ZREM', RUN .. 'suspects', id)")),
    "dead, and not in the list": Fault("no_place", row_lua("DEAD", "call('ZREM', RUN .. 'dead', id)")),
    "dead, and not in that of its class": Fault(
        "no_place", row_lua("DEAD", "call('ZREM', RUN .. 'dead:' .. row[ERROR_CLASS], id)")
    ),
    "returned, and not in its queue": Fault(
        "no_place", row_lua("QUEUED", "call('ZREM', RUN .. 'returned:' .. row[HOST], returned_member(id, row))")
    ),
    "returned with another priority": Fault(
        "request_index", row_lua("QUEUED", "call('ZADD', RUN .. 'returned:' .. row[HOST], -1, returned_member(id, row))")
    ),
    "delayed, and its record is gone": Fault(
        "no_request", row_lua("DELAYED", "call('HDEL', RUN .. 'requests', id)"), mendable=False
    ),
    "dead and delayed": Fault("two_places", row_lua("DEAD", "call('ZADD', RUN .. 'delayed', 5, id)")),
    "queued twice": Fault("two_places", f"{_QUEUE_OF_2} call('LPUSH', queue, element)"),
    "queued and leased": Fault(
        "two_places", hold_lua("/held", "call('LPUSH', RUN .. 'q:0:{0}', struct.pack('>I5', 1) .. key .. row_of(hold)[PAYLOAD])")
    ),
    "delayed and leased": Fault(
        "two_places",
        hold_lua("/held", "local row = row_of(hold) row[PLACE] = AT_DELAYED save_row(key, row)"),
    ),
    "queued and delayed": Fault(
        "two_places", row_lua("DELAYED", "call('LPUSH', RUN .. 'q:0:' .. row[HOST], struct.pack('>I5', 1) .. id .. row[PAYLOAD])")
    ),
    "a lease that its worker forgot": Fault("lease_worker", hold_lua("/held", "call('SREM', RUN .. 'held:w2', key)")),
    "a lease of another worker": Fault("lease_worker", hold_lua("/held", "call('SADD', RUN .. 'held:w1', key)")),
    "a worker that is not alone": Fault("lease_worker", "call('SADD', RUN .. 'alone', 'w2')"),
    "a worker that is never looked at": Fault("lease_deadline", "call('ZREM', RUN .. 'deadlines', 'w2')"),
    "a worker that is looked at too late": Fault("lease_deadline", "call('ZADD', RUN .. 'deadlines', 1e10, 'w2')"),
    "two leases of an epoch": Fault(
        "lease_epoch",
        "local epoch local found = call('HGETALL', RUN .. 'holds') for place = 1, #found, 2 do"
        " local key, hold = found[place], unpack_hold(found[place + 1]) if work_of(key) == ROBOTS then"
        f" if epoch then hold[EPOCH] = epoch {_SET} end epoch = hold[EPOCH] end end",
    ),
    "a lease beside one alone": Fault("lease_alone", hold_lua("/held", f"hold[ALONE] = true {_SET} call('SADD', RUN .. 'alone', 'w2')"), mendable=False),
    "a lease of another host": Fault("lease_work", hold_lua("/held", f"hold[HOLD_HOST] = '{{2}}' {_SET}")),
    "staged for nobody": Fault("staged", "call('RPUSH', RUN .. 'staged:77', '\\0x')"),
    "a lease that forgot what it staged": Fault("staged", hold_lua("/staged", f"hold[STAGED] = false {_SET}")),
    "staged items lost": Fault(
        "staged", hold_lua("/staged", "call('DEL', RUN .. 'staged:' .. format('%d', hold[EPOCH]))"), mendable=False
    ),
    "one more at an address": Fault("address_count", f"call('HINCRBY', RUN .. 'addresses', '{ADDRESS}', 1)"),
    "an address forgotten": Fault("address_count", "call('DEL', RUN .. 'addresses')"),
    "an address of no lease": Fault("address_count", "call('HSET', RUN .. 'addresses', '10.0.0.9', 2)"),
    "an item missing": Fault("outbox", "call('RPOP', RUN .. 'items')", mendable=False),
    "a sink ahead of the items": Fault(
        "sink_position", "call('HSET', RUN .. 'sinks', 'b.jsonl', pack({99, false, '', 0, 0, ''}))", mendable=False
    ),
    "items that every sink has": Fault(
        "outbox_leftover",
        "for _, name in ipairs({'a.jsonl', 'b.jsonl'}) do call('HSET', RUN .. 'sinks', name, pack({2, false, '', 0, 0, ''})) end",
    ),
    "items without a sink": Fault("outbox_leftover", "call('DEL', RUN .. 'sinks')", mendable=False),
    "a robots.txt missing": Fault("robots", "call('HDEL', BASE .. 'robots', '{2}')"),
    "pages of a host": Fault("pages_count", host_lua(0, "h[PAGES] = 40"), mendable=False),
    "a host that cannot be read": Fault("unreadable", "call('HSET', BASE .. 'hosts', '{2}', 'x')", mendable=False),
    "a record that cannot be read": Fault("unreadable", "call('SET', KEYS[1], 'x')", mendable=False),
}
WHOLE_JOB: dict[str, Fault] = {
    "finished with a queue": Fault("state", job_lua("J.state = 'finished'")),
    "a permit lost": Fault("permit", "call('LREM', RUN .. 'permits', 0, '{0}')"),
    "a permit of a host that is none": Fault("permit", "call('RPUSH', RUN .. 'permits', '{2}')"),
    "a card of nobody": Fault("worker_card", "call('ZREM', BASE .. 'workers', 'w1')"),
    "a seeding that is over": Fault(
        "lease_work", "call('HSET', RUN .. 'holds', 's', pack_hold(7, now, now, false, false, 'w2', '', ''))"
    ),
}
"""Where a job is in shards, the lead has these lists."""
ACROSS_SHARDS: dict[str, Fault] = {
    "a shard that is finished": Fault("state", job_lua("J.state = 'finished'"), mendable=False),
    "a shard with another number": Fault("shard", job_lua("J.shard = 2"), mendable=False),
    "a shard that knows more permits": Fault("permit", job_lua("J.permits = 99"), mendable=False),
    "a target that a shard does not know": Fault("shard", "call('HDEL', RUN .. 'sinks', 'a.jsonl')", mendable=False),
    "items that a target lacks and a shard has forgotten": Fault(
        "sink_position",
        "call('HSET', RUN .. 'sinks', 'a.jsonl', pack({3, false, '', 0, 0, ''}))",
        mendable=False,
    ),
    "a host of another shard": Fault(
        "host_shard", f"{_QUEUE_OF_2} call('RPUSH', RUN .. 'q:0:{{7}}', element)", mendable=False
    ),
}


def names_in_shard(number: int, count: int, letter: str) -> list[str]:
    """Names of hosts that belong to a shard."""
    names = (f"{letter}{n}" for n in range(1000))
    found = [name for name in names if shard_number(f"http://{name}.example", SHARDS) == number]
    return found[:count]


class Keys:
    """The job in a Redis, as it was and with a fault in one of its shards."""

    def __init__(self, url: str, shards: int) -> None:
        self.url = url if shards == 1 else f"{url}?shards={shards}"
        self._shards = shards
        # All of the job's life is in a shard that is not the lead; the others have queues.
        if shards == 1:
            self.hosts = list(HOSTS)
            self.home = 0
        else:
            self.hosts = [*names_in_shard(1, 7, "h"), *names_in_shard(0, 1, "x"), *names_in_shard(2, 1, "y")]
            self.home = 1
        self._clock = FakeClock()
        self._server = RedisServer(parse_address(url))
        self._whole: dict[bytes, bytes] = {}
        self._urls: set[str] = set()

    def key_of(self, host: int) -> str:
        return f"http://{self.hosts[host]}.example"

    def open(self) -> JobAtWork:
        job = JobAtWork(redis_frontier(self.url, JOB, clock=self._clock), self._clock, self.hosts)
        job.urls = set(self._urls)
        return job

    async def fill(self) -> None:
        await self._server.command("FLUSHALL")
        job = self.open()
        await job.fill()
        self._urls = job.urls
        entry = Fingerprinter((await job.frontier.job()).secret).entry
        self._queued = entry(Request(f"{self.key_of(2)}/queued0")).id
        self._done = entry(Request(f"{self.key_of(0)}/done1")).id
        await job.frontier.close()
        for key in await self._server.command("KEYS", "skitter:*"):
            self._whole[key] = await self._server.command("DUMP", key)

    async def damage(self, body: str) -> JobAtWork:
        await self._server.command("FLUSHALL")
        for key, dump in self._whole.items():
            await self._server.command("RESTORE", key, 0, dump)
        for number in range(len(self.hosts)):
            body = body.replace(f"{{{number}}}", self.key_of(number))
        key = prefixes_of(JOB, self._shards)[self.home] + "job"
        await self._server.command("EVAL", lua(body), 1, key, repr(self._clock()), self._queued, self._done)
        return self.open()

    async def close(self) -> None:
        await self._server.close()


@pytest_asyncio.fixture
async def keys(services: Any) -> AsyncIterator[Keys]:
    keys = Keys(services.need("redis")["url"], 1)
    await keys.fill()
    yield keys
    await keys.close()


@pytest_asyncio.fixture
async def shards(services: Any) -> AsyncIterator[Keys]:
    keys = Keys(services.need("redis")["url"], SHARDS)
    await keys.fill()
    yield keys
    await keys.close()


async def found_and_mended(keys: Keys, fault: Fault) -> None:
    job = await keys.damage(fault.plant)
    try:
        await is_found(job.frontier, fault)
        if fault.mendable:
            names = {(0, "done1"), (0, "done2"), (1, "first")}
            await goes_on(job, {f"{keys.key_of(host)}/{name}" for host, name in names})
    finally:
        await job.frontier.close()


async def test_a_job_in_redis_at_work_is_consistent(keys: Keys) -> None:
    job = keys.open()
    report = await check_job(job.frontier)
    assert (report.findings, report.unchecked) == ([], [])
    assert report.checked["requests"] == len(job.urls)
    await job.frontier.close()


async def test_a_job_in_shards_at_work_is_consistent(shards: Keys) -> None:
    job = shards.open()
    report = await check_job(job.frontier)
    assert (report.findings, report.unchecked) == ([], [])
    assert report.checked["requests"] == len(job.urls)
    await job.frontier.close()


@pytest.mark.parametrize("name", [*IN_REDIS, *WHOLE_JOB])
async def test_a_fault_in_redis_is_found_and_mended(keys: Keys, name: str) -> None:
    await found_and_mended(keys, (IN_REDIS | WHOLE_JOB)[name])


@pytest.mark.parametrize("name", [*IN_REDIS, *ACROSS_SHARDS])
async def test_a_fault_in_a_shard_is_found_and_mended(shards: Keys, name: str) -> None:
    await found_and_mended(shards, (IN_REDIS | ACROSS_SHARDS)[name])
