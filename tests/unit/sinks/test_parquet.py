"""``.parquet``: the types that columns get, and that every value comes back in pyarrow and in DuckDB."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from read_back import records

from skitter.errors import SinkError
from skitter.sinks import parquet
from skitter.sinks.type_inference import DEPTH, STRUCT_FIELDS

TIMESTAMP = pa.timestamp("us", tz="UTC")


def written(run, tmp_path, *items):
    path = tmp_path / "out.parquet"
    run(path).open().write(*items).finish()
    return path


def types(path):
    return {field.name: field.type for field in pq.read_schema(path)}


def in_duckdb(path, query="select * from t"):
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        connection.execute(f"create view t as select * from '{path}'")
        # By way of Arrow: instants as Python objects need a package that nothing else does.
        table = connection.sql(query).to_arrow_table()
        return [tuple(row.values()) for row in table.to_pylist()]


def test_pyarrow_and_duckdb_see_the_types_that_a_person_would_expect(run, tmp_path):
    path = written(
        run,
        tmp_path,
        {"url": "https://a.example/", "status": 200, "price": 12.5, "in_stock": True, "at": "2026-01-02T03:04:05.5Z"},
        {"url": "https://b.example/", "status": 404, "price": 7, "in_stock": None, "at": "2026-01-02T04:04:05+01:00"},
        {"tags": ["a", "b"], "seller": {"name": "Ünï", "stars": 4}, "never": None},
    )
    assert types(path) == {
        "url": pa.string(),
        "status": pa.int64(),
        "price": pa.float64(),
        "in_stock": pa.bool_(),
        "at": TIMESTAMP,
        "tags": pa.list_(pa.string()),
        "seller": pa.struct([("name", pa.string()), ("stars", pa.int64())]),
        "never": pa.string(),
    }
    described = in_duckdb(path, "select column_name, column_type from (describe t)")
    assert dict(described) == {
        "url": "VARCHAR",
        "status": "BIGINT",
        "price": "DOUBLE",
        "in_stock": "BOOLEAN",
        "at": "TIMESTAMP WITH TIME ZONE",
        "tags": "VARCHAR[]",
        "seller": 'STRUCT("name" VARCHAR, stars BIGINT)',
        "never": "VARCHAR",
    }
    assert in_duckdb(path, "select sum(status), avg(price), max(seller.stars), count(*) from t") == [(604, 9.75, 4, 3)]
    assert [row["at"] for row in records(path)] == [
        datetime(2026, 1, 2, 3, 4, 5, 500_000, UTC),
        datetime(2026, 1, 2, 3, 4, 5, 0, UTC),
        None,
    ]


@pytest.mark.parametrize(
    ("values", "kind", "back"),
    [
        ([1, -(2**63), 2**63 - 1], pa.int64(), None),
        ([1, 2**63], pa.string(), ["1", "9223372036854775808"]),
        ([1, 2.5, 2**53], pa.float64(), [1.0, 2.5, 2.0**53]),
        ([2.5, 2**53 + 1], pa.string(), ["2.5", "9007199254740993"]),
        ([True, 1], pa.string(), ["true", "1"]),
        ([12, "n/a"], pa.string(), ["12", "n/a"]),
        (["2026-01-01T00:00:00Z", "soon"], pa.string(), None),
        (["2026-02-30T00:00:00Z"], pa.string(), None),
        (["2026-01-01"], pa.string(), None),
        (["2026-01-01T00:00:00"], pa.string(), None),
        (["9999-12-31T23:59:59-23:00"], pa.string(), None),
        ([["a"], "b"], pa.string(), ['["a"]', "b"]),
        ([[1], [2.5, None]], pa.list_(pa.float64()), None),
        ([[]], pa.list_(pa.string()), None),
        ([[1], ["x"]], pa.list_(pa.string()), [["1"], ["x"]]),
        ([{}], pa.string(), ["{}"]),
        (
            [{"a": 1}, {"b": "x"}],
            pa.struct([("a", pa.int64()), ("b", pa.string())]),
            [{"a": 1, "b": None}, {"a": None, "b": "x"}],
        ),
        ([{"a": 1}, {"a": [2]}], pa.struct([("a", pa.string())]), [{"a": "1"}, {"a": "[2]"}]),
        ([{"at": "2026-01-01T00:00:00Z"}], pa.struct([("at", TIMESTAMP)]), [{"at": datetime(2026, 1, 1, tzinfo=UTC)}]),
    ],
)
def test_a_column_has_one_type_that_loses_nothing(run, tmp_path, values, kind, back):
    path = written(run, tmp_path, *({"v": value} for value in values))
    assert types(path) == {"v": kind}
    assert [row["v"] for row in records(path)] == (back or values)
    assert [row[0] for row in in_duckdb(path)] == (back or values)


def test_an_object_that_is_a_map_is_text_and_so_is_what_is_nested_deeply(run, tmp_path):
    map_ = {f"k{n}": n for n in range(STRUCT_FIELDS + 1)}
    deep = 1
    for _ in range(DEPTH + 3):
        deep = [deep]
    path = written(run, tmp_path, {"map": map_, "deep": deep})
    assert types(path)["map"] == pa.string()
    row = records(path)[0]
    assert json.loads(row["map"]) == map_
    inside = row["deep"]
    for _ in range(DEPTH):
        (inside,) = inside
    assert json.loads(inside) == [[[1]]]


def test_a_field_that_comes_late_is_a_column_of_the_whole_table(run, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "_BATCH_ROWS", 10)
    monkeypatch.setattr(parquet, "_GROUP_ROWS", 20)
    items = [{"n": n} | ({"late": n / 2} if n > 90 else {}) for n in range(100)]
    path = written(run, tmp_path, *items)
    assert pq.ParquetFile(path).num_row_groups == 5
    assert [row["n"] for row in records(path)] == list(range(100))
    assert in_duckdb(path, "select count(late) from t") == [(9,)]


def test_rows_that_are_there_are_kept_with_their_values(run, tmp_path):
    path = tmp_path / "out.parquet"
    old = {"n": 1, "at": "2026-01-02T03:04:05Z", "tags": ["x"], "gone": None}
    run(path).open().write(old).finish()
    run(path).open().write({"n": 2.5, "new": "y"}).finish()
    assert types(path) == {
        "n": pa.float64(),
        "at": TIMESTAMP,
        "tags": pa.list_(pa.string()),
        "gone": pa.string(),
        "new": pa.string(),
    }
    first, second = records(path)
    assert first == {
        "n": 1.0,
        "at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "tags": ["x"],
        "gone": None,
        "new": None,
    }
    assert second == {"n": 2.5, "at": None, "tags": None, "gone": None, "new": "y"}


def test_a_table_of_another_program_is_kept(run, tmp_path):
    path = tmp_path / "out.parquet"
    pq.write_table(pa.table({"n": pa.array([1, 2], pa.int16()), "raw": pa.array([b"\0\xff", None])}), path)
    run(path).open().write({"n": 3}).finish()
    assert records(path) == [{"n": 1, "raw": "AP8="}, {"n": 2, "raw": None}, {"n": 3, "raw": None}]


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1nonsensePAR1", b"n\n1\n"])
def test_what_is_no_parquet_file_is_left_alone(run, tmp_path, content):
    path = tmp_path / "out.parquet"
    path.write_bytes(content)
    with pytest.raises(SinkError, match="cannot append to the existing results"):
        run(path).open()
    assert path.read_bytes() == content


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=3), inside, max_size=3),
    max_leaves=6,
)


def same(ours, theirs):
    """A value as it was yielded, and as it came back from a column that had to take others too."""
    match ours, theirs:
        case None, None:
            return True
        case dict(), dict():
            return all(same(ours.get(name), theirs[name]) for name in theirs) and ours.keys() <= theirs.keys()
        case list(), list():
            return len(ours) == len(theirs) and all(map(same, ours, theirs))
        case ((int() | float()), (int() | float())):
            return math.isclose(ours, theirs, rel_tol=0)
        case str(), str():
            return ours == theirs
        case _, str():
            return json.loads(theirs) == ours
    return False


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.dictionaries(st.sampled_from("abc"), VALUES, min_size=1, max_size=3), min_size=1, max_size=6))
def test_whatever_is_yielded_comes_back(run, tmp_path_factory, items):
    path = tmp_path_factory.mktemp("table") / "out.parquet"
    run(path).open().write(*items).finish()
    back = records(path)
    assert len(back) == len(items)
    for item, row in zip(items, back, strict=True):
        assert all(same(item.get(name), row[name]) for name in row), (item, row)
