"""Tables: columns that follow their values, tables of other people, and items that a database will not take."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from functools import partial
from pathlib import Path

import asyncpg
import pytest

from skitter.errors import BadItemsError, SinkError, SinkUnavailableError

# The first test may have to install a server.
pytestmark = pytest.mark.timeout(900)

SERVERS = ["postgresql", "mariadb"]
TABLES = ["sqlite", *SERVERS]


def bad(run, *records, page=8):
    """Positions and reasons of those that are refused; the others are written after that."""
    items = run.items(*records, page=page)
    with pytest.raises(BadItemsError) as error:
        run.sink.write(items)
    reasons = error.value.reasons
    run.sink.write([item for item in items if item.position not in reasons])
    return {position - items[0].position: reason for position, reason in reasons.items()}


# ---- columns


@pytest.mark.parametrize("place", SERVERS, indirect=True)
@pytest.mark.parametrize(
    ("first", "second", "then"),
    [
        (1, 1.5, [1.0, 1.5]),
        (1.5, 2, [1.5, 2.0]),
        (1, "n/a", ["1", "n/a"]),
        ("1", 2, ["1", "2"]),
        ("text", {"a": [1]}, ["text", '{"a":[1]}']),
        (12.5, "n/a", ["12.5", "n/a"]),
        ("yes", True, ["yes", "true"]),
        (5, 2**64 - 1, ["5", str(2**64 - 1)]),
    ],
)
def test_a_column_of_ours_widens_with_its_values(place, run, first, second, then):
    run(place.target).open().write({"v": first}).write({"v": second}, page=8).open().write(
        {"v": first}, page=9
    ).finish()
    values = {key: row["v"] for key, row in place.records().items()}
    assert [values[f"{page:016x}-0"] for page in (7, 8, 9)] == [then[0], then[1], then[0]]


@pytest.mark.parametrize("place", SERVERS, indirect=True)
def test_a_batch_may_hold_what_makes_its_column_wider(place, run):
    run(place.target).open().write({"v": 1}, {"v": None}, {"v": 1.5}, {"v": "x"}, {"v": [1]}).finish()
    assert [row["v"] for _, row in sorted(place.records().items())] == ["1", None, "1.5", "x", "[1]"]


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_sqlite_keeps_every_value_as_it_is(place, run):
    run(place.target).open().write({"v": 1}, {"v": "1"}, {"v": 1.0}, {"v": "01"}).finish()
    values = [row["v"] for _, row in sorted(place.records().items())]
    assert [(type(value), value) for value in values] == [(int, 1), (str, "1"), (float, 1.0), (str, "01")]


@pytest.mark.parametrize("place", TABLES, indirect=True)
def test_more_fields_than_a_table_can_have_are_bad_items(place, run):
    each = run(place.target).open().write({"a": 1})
    reasons = bad(each, {"a": 2}, {f"field{n}": n for n in range(1500)}, {"a": 3})
    assert list(reasons) == [1]
    assert "1000 columns" in reasons[1]
    assert sorted(row["a"] for row in place.rows()) == [1, 2, 3]


@pytest.mark.parametrize("place", TABLES, indirect=True)
def test_a_column_that_somebody_removes_comes_back(place, run):
    each = run(place.target).open().write({"a": 1, "b": 1})
    place.run("ALTER TABLE {table} DROP COLUMN b")
    each.write({"a": 2, "b": 2}, page=8).finish()
    assert sorted((row["a"], row["b"]) for row in place.rows() if row["a"] == 2) == [(2, 2)]


@pytest.mark.parametrize("place", TABLES, indirect=True)
def test_a_column_that_somebody_adds_is_left_alone(place, run):
    each = run(place.with_options("key=sku")).open().write({"sku": "x", "n": 1})
    place.run("ALTER TABLE {table} ADD COLUMN reviewed INTEGER")
    place.run("UPDATE {table} SET reviewed = 1")
    each.open().write({"sku": "x", "n": 2}, {"sku": "y", "n": 2}, page=8).finish()
    assert {key: (row["n"], row["reviewed"]) for key, row in place.records().items()} == {"x": (2, 1), "y": (2, None)}


@pytest.mark.parametrize("place", SERVERS, indirect=True)
def test_a_row_that_is_too_wide_for_a_page_of_the_server_is_a_bad_item(place, run):
    each = run(place.target).open().write({"a": 1})
    reasons = bad(each, {"a": 2}, {f"field{n}": "x" * 100 for n in range(900)}, {"a": 3})
    assert list(reasons) == [1]
    assert sorted(row["a"] for row in place.rows()) == [1, 2, 3]


@pytest.mark.parametrize("place", ["mariadb"], indirect=True)
def test_an_item_that_mariadb_would_hang_up_on_is_a_bad_item(place, run):
    each = run(place.target).open()
    reasons = bad(each, {"text": "small"}, {"text": "x" * (17 << 20)}, {"text": "other"})
    assert list(reasons) == [1]
    assert "max_allowed_packet" in reasons[1]
    assert len(place.rows()) == 2


# ---- tables of other people

OWN = "CREATE TABLE {table} (sku VARCHAR(20) PRIMARY KEY, price NUMERIC(10, 2) NOT NULL, stock INT CHECK (stock >= 0))"


@pytest.mark.parametrize("place", TABLES, indirect=True)
def test_a_table_of_somebodys_own_is_used_as_it_is(place, run):
    place.run(OWN)
    place.key = "sku"
    each = run(place.with_options("key=sku")).open().write({"sku": "x", "price": 12, "stock": 1})
    each.write({"sku": "x", "price": 13.5}, {"sku": "y", "price": 1, "colour": "red"}).finish()
    rows = place.records()
    assert {key: (float(row["price"]), row["stock"], row["colour"]) for key, row in rows.items()} == {
        "x": (13.5, 1, None),
        "y": (1, None, "red"),
    }


@pytest.mark.parametrize("place", TABLES, indirect=True)
def test_what_breaks_a_constraint_is_bad_and_the_rest_is_written(place, run):
    place.run(OWN)
    place.key = "sku"
    each = run(place.with_options("key=sku")).open()
    records = [{"sku": f"s{n:03}", "price": 1, "stock": n} for n in range(200)]
    records[17]["stock"] = -1
    records[18]["price"] = None
    records[150] = {"sku": "s150", "stock": 1}
    reasons = bad(each, *records)
    assert list(reasons) == [17, 18, 150]
    assert all(reasons.values())
    assert set(place.records()) == {f"s{n:03}" for n in range(200)} - {"s017", "s018", "s150"}


@pytest.mark.parametrize("place", SERVERS, indirect=True)
def test_a_wrong_type_for_somebodys_own_column_is_a_bad_item(place, run):
    place.run(OWN)
    place.key = "sku"
    each = run(place.with_options("key=sku")).open()
    wrong = [
        {"sku": "a", "price": "a lot"},
        {"sku": "b", "price": 1, "stock": 1.5},
        {"sku": "c", "price": 1, "stock": 2**40},
        {"sku": "d" * 50, "price": 1},
        {"sku": "e", "price": 1, "stock": [1]},
        {"sku": "good", "price": 1, "stock": 1},
    ]
    assert list(bad(each, *wrong)) == [0, 1, 2, 3, 4]
    assert set(place.records()) == {"good"}


@pytest.mark.parametrize("place", TABLES, indirect=True)
def test_a_batch_in_which_all_are_bad_is_told(place, run):
    place.run(OWN)
    each = run(place.with_options("key=sku")).open()
    items = each.items(*({"sku": str(n), "price": 1, "stock": -1} for n in range(5)))
    with pytest.raises(BadItemsError) as error:
        each.sink.write(items)
    assert len(error.value.reasons) == 5
    assert place.rows() == []


@pytest.mark.parametrize("place", TABLES, indirect=True)
def test_a_table_without_a_key_is_refused_with_a_hint(place, run):
    place.run("CREATE TABLE {table} (sku VARCHAR(20), price INTEGER)")
    with pytest.raises(SinkError, match="no column _key") as error:
        run(place.target).open()
    assert "key=" in error.value.hint
    place.run("INSERT INTO {table} VALUES ('precious', 1)")
    with pytest.raises(SinkError, match="no unique index on sku"):
        run(place.with_options("key=sku"), overwrite=True).open()
    assert len(place.rows()) == 1, "a table that is refused is not emptied"
    place.run("DELETE FROM {table}")
    place.run("CREATE UNIQUE INDEX once_" + place.table + " ON {table} (sku)")
    run(place.with_options("key=sku")).open().write({"sku": "x", "price": 1}, {"sku": "x", "price": 2}).finish()
    assert [row["price"] for row in place.rows()] == [2]


@pytest.mark.parametrize("place", ["mariadb"], indirect=True)
def test_mariadb_must_have_no_other_unique_index(place, run):
    # ON DUPLICATE KEY UPDATE would change whichever row it meets there.
    place.run("CREATE TABLE {table} (sku VARCHAR(20) PRIMARY KEY, url VARCHAR(50) UNIQUE)")
    with pytest.raises(SinkError, match="another unique index, on url"):
        run(place.with_options("key=sku")).open()
    place.run("DROP TABLE {table}")
    place.run("CREATE TABLE {table} (id INT AUTO_INCREMENT PRIMARY KEY, sku VARCHAR(20) UNIQUE, n INT)")
    run(place.with_options("key=sku")).open().write({"sku": "x", "n": 1}).write({"sku": "x", "n": 2}).finish()
    assert place.rows() == [{"id": 1, "sku": "x", "n": 2}]


@pytest.mark.parametrize("place", ["postgresql", "sqlite"], indirect=True)
def test_another_unique_index_makes_bad_items(place, run):
    place.run("CREATE TABLE {table} (sku VARCHAR(20) PRIMARY KEY, url VARCHAR(50) UNIQUE)")
    each = run(place.with_options("key=sku")).open().write({"sku": "a", "url": "u"})
    assert list(bad(each, {"sku": "b", "url": "u"}, {"sku": "c", "url": "v"})) == [0]
    assert {row["sku"] for row in place.rows()} == {"a", "c"}


# ---- PostgreSQL


@pytest.mark.parametrize("place", ["postgresql"], indirect=True)
def test_postgresql_converts_into_its_own_types(place, run):
    place.run(
        "CREATE TABLE {table} (id uuid PRIMARY KEY, day date, seen timestamptz, tags text[], price numeric(6, 2),"
        " name varchar(5), more jsonb, made timestamptz DEFAULT now())"
    )
    place.key = "id"
    name = "00000000-0000-0000-0000-000000000001"
    each = run(place.with_options("key=id")).open()
    each.write(
        {
            "id": name,
            "day": "2026-02-03",
            "seen": "2026-02-03T04:05:06Z",
            "tags": ["a", "b"],
            "price": 1.5,
            "more": {"a": 1},
        }
    )
    reasons = bad(each, {"id": name, "day": "someday"}, {"id": name, "name": "too long"}, {"id": "none"})
    assert list(reasons) == [0, 1, 2]
    ((day, tags, price, more, made),) = place.run("SELECT day, tags, price, more, made FROM {table}")
    assert (str(day), tags, str(price), more) == ("2026-02-03", ["a", "b"], "1.50", '{"a": 1}')
    assert made is not None


@pytest.mark.parametrize("place", ["postgresql"], indirect=True)
def test_postgresql_has_no_zero_bytes_in_text(place, run):
    each = run(place.target).open()
    reasons = bad(each, {"t": "good"}, {"t": "a\0b"}, {"t": {"n": "a\0"}}, {"t\0": 1})
    assert list(reasons) == [1, 2]
    assert len(place.rows()) == 2


@pytest.mark.parametrize("place", ["postgresql"], indirect=True)
def test_a_deferred_constraint_is_seen_with_its_item(place, run):
    place.run("CREATE TABLE {table} (sku text PRIMARY KEY, url text UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    each = run(place.with_options("key=sku")).open().write({"sku": "a", "url": "u"})
    assert list(bad(each, {"sku": "b", "url": "u"}, {"sku": "c", "url": "v"})) == [0]


@pytest.mark.parametrize("place", ["postgresql"], indirect=True)
def test_two_keys_that_are_one_to_the_database_make_one_row(place, run):
    place.run("CREATE TABLE {table} (n integer PRIMARY KEY, v text)")
    run(place.with_options("key=n")).open().write({"n": 1, "v": "a"}, {"n": "1", "v": "b"}).finish()
    assert [(row["n"], row["v"]) for row in place.rows()] == [(1, "b")]


@pytest.mark.parametrize("place", ["postgresql"], indirect=True)
def test_a_schema_may_be_named(place, run):
    place.run("CREATE SCHEMA s" + place.table)
    target = f"{place.url}#s{place.table}.Strange name"
    run(target).open().write({"n": 1}).finish()
    assert [row["n"] for row in place.run(f'SELECT n FROM s{place.table}."Strange name"')] == [1]


# ---- unavailable


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_a_file_that_another_program_holds_is_away(place, run, monkeypatch):
    monkeypatch.setattr("skitter.sinks.databases.sqlite._BUSY_SECONDS", 0.05)
    each = run(place.target).open()
    holder = sqlite3.connect(place.url.removeprefix("sqlite:"), isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(SinkUnavailableError, match="busy"):
        each.write({"n": 1})
    holder.execute("ROLLBACK")
    holder.close()
    each.write({"n": 1})
    assert len(place.rows()) == 1


@pytest.mark.parametrize("place", ["postgresql"], indirect=True)
def test_a_table_that_somebody_locks_is_away(place, run, monkeypatch):
    monkeypatch.setattr("skitter.sinks.databases.postgresql._LOCK_SECONDS", 0.1)
    each = run(place.target).open().write({"n": 1})
    loop = asyncio.new_event_loop()
    holder = loop.run_until_complete(asyncpg.connect(place.url))
    loop.run_until_complete(holder.execute(f"BEGIN; LOCK TABLE {place.table}"))
    with pytest.raises(SinkUnavailableError, match="lock"):
        each.write({"n": 2}, page=8)
    loop.run_until_complete(holder.close())
    loop.close()
    each.write({"n": 2}, page=8)
    assert len(place.rows()) == 2


def ports_of_this_process() -> set[int]:
    """The ports of its connections: other processes of the run use the same server."""
    names = [str(file.readlink()) for file in Path("/proc/self/fd").iterdir() if file.is_symlink()]
    sockets = {name.removeprefix("socket:[").removesuffix("]") for name in names if name.startswith("socket:")}
    lines = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    return {int(line[1].partition(":")[2], 16) for line in lines if line[9] in sockets}


@pytest.mark.parametrize("place", SERVERS, indirect=True)
def test_connections_that_are_cut_are_away_and_made_again(place, run):
    each = run(place.target).open().write({"n": 1})
    if place.kind == "postgresql":
        ports = ", ".join(map(str, ports_of_this_process()))
        place.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            f" WHERE application_name = 'skitter' AND client_port IN ({ports})"
        )
    else:
        ports = ", ".join(f"'127.0.0.1:{port}'" for port in ports_of_this_process())
        query = "SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID()"
        for (number,) in place.run(f"{query} AND user = 'skitter' AND host IN ({ports})"):
            place.run(f"KILL {number}")
    with pytest.raises(SinkUnavailableError):
        each.write({"n": 2}, page=8)
    each.write({"n": 2}, page=8).finish()
    assert sorted(row["n"] for row in place.rows()) == [1, 2]


@pytest.mark.parametrize("place", TABLES, indirect=True)
def test_two_writers_that_begin_at_once_share_a_table(place, run):
    runs = [run(place.target, job=f"job{n}") for n in range(4)]
    begin = threading.Barrier(len(runs))
    failures = []

    def work(number: int) -> None:
        try:
            begin.wait()
            again(runs[number].open)
            for batch in range(5):
                record, page = {f"f{batch}": number, "n": batch}, number * 10 + batch
                again(partial(runs[number].write, record, page=page))
            runs[number].sink.close()
        except Exception as error:  # noqa: BLE001  told below, in the thread of the test
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(runs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(place.records()) == 20


def again(call):
    """As delivery does it: what is unavailable is called again."""
    for _ in range(20):
        try:
            return call()
        except SinkUnavailableError:
            continue
    return call()
