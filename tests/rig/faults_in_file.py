"""Faults that are planted in a job's SQLite file, by SQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import msgspec

from rig.job_at_work import ADDRESS, HOSTS, NEED, SINKS, Fault
from skitter.model.host import Host, Phase
from skitter.model.job import SinkProgress


def encode(value: object) -> bytes:
    """As it stands in the file."""
    return msgspec.msgpack.encode(value)


def key_of(host: int) -> str:
    return f"http://{HOSTS[host]}.example"


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
    connection.execute(
        "INSERT INTO hosts (job, key, phase, top, turn, due, record) VALUES (?, ?, ?, ?, ?, ?, ?)", values
    )


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
        for name in ("queued", "delayed", "leased", "done", "redirected", "failed", "excluded")
    },
    "one less queued": Fault("count", job_with(queued="-1")),
    "a class of errors forgotten": Fault("errors_count", job_with(errors={})),
    "paused hosts": Fault("halted_count", job_with(paused_hosts="+1")),
    "hosts given up": Fault("halted_count", job_with(given_up_hosts="+1")),
    "parked hosts": Fault("parked_count", job_with(parked="+1")),
    "one more open intake": Fault("intakes_count", job_with(intakes="+1")),
    "an open intake forgotten": Fault("intakes_count", job_with(intakes=0)),
    "one more jar": Fault("jars_count", job_with(jars="+1")),
    "a jar that is newer than the newest": Fault(
        "sequence", sql("INSERT INTO jars VALUES (1, '', 'a.example', 7, 1.0, ?)", encode([]))
    ),
    "a session in flight without a lease": Fault(
        "session_in_flight", sql("INSERT INTO sessions VALUES (1, 'alice', ?)", encode((0, 2)))
    ),
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
    "a need that its host forgot": Fault("host_queue", host_with(2, needs={})),
    "a priority of a need too low": Fault("host_queue", host_with(2, needs={NEED: 1})),
    "a need of nothing": Fault("host_queue", host_with(2, needs={NEED: 82, "session": 5})),
    "not ready for a need": Fault("host_index", sql("DELETE FROM ready_for WHERE key = ?", key_of(2))),
    "ready for a need that nothing has": Fault(
        "host_index", sql("INSERT INTO ready_for VALUES (1, ?, 'session', 0, 0)", key_of(2))
    ),
    "ready for a need with another priority": Fault("host_index", sql("UPDATE ready_for SET top = 7")),
    "a host of no record that is ready": Fault(
        "host_index", sql("INSERT INTO ready_for VALUES (1, 'http://ghost.example', 'session', 0, 0)")
    ),
    "not parked for a need": Fault("host_index", sql("DELETE FROM parked WHERE need = ?", NEED)),
    "a need counted once more": Fault("need_count", sql("UPDATE needs SET queued = queued + 1")),
    "a need not counted": Fault("need_count", sql("DELETE FROM needs")),
    "a need counted of which nothing is queued": Fault("need_count", sql("INSERT INTO needs VALUES (1, 'session', 4)")),
    "nobody looks for what has needs": Fault("need_count", job_with(needy=0)),
    "pages of a host": Fault("pages_count", host_with(0, pages=40)),
    "not in the list of parked hosts": Fault("host_index", sql("DELETE FROM parked")),
    "parked as well": Fault("host_index", sql("INSERT INTO parked VALUES (1, ?, '', ?, 0, 0)", key_of(2), ADDRESS)),
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
    "a lease beside one alone": Fault("lease_alone", sql("UPDATE holds SET alone = 1 WHERE work = 0"), mendable=False),
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
    "a heartbeat of nobody": Fault("worker_heartbeat", sql("DELETE FROM workers WHERE worker = 'w1'")),
    "a value that cannot be read": Fault("unreadable", sql("UPDATE requests SET history = x'c1'"), mendable=False),
    "a record that cannot be read": Fault("unreadable", sql("UPDATE jobs SET record = x'c1'"), mendable=False),
    "a request of no host": Fault("unreadable", sql("UPDATE requests SET host = 999 WHERE place = 1"), mendable=False),
}
RECRAWLED = {"recrawl": "all"}
IN_RECRAWLED_FILE: dict[str, Fault] = {
    "due at another time than its record says": Fault(
        "known_page", sql("UPDATE pages SET due = 7.0 WHERE record IS NOT NULL")
    ),
}
