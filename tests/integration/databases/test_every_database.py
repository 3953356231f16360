"""What all databases promise as sinks, on the real servers: each item once, whatever comes again."""

from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skitter.errors import BadItemsError, SinkError, SinkUnavailableError, UsageError
from skitter.model.item import Item
from skitter.model.job import SinkProgress

# The first test that needs MongoDB's protocol may have to build a server.
pytestmark = pytest.mark.timeout(900)

SERVERS = ["postgresql", "mariadb", "mongodb"]
TABLES = ["sqlite", "postgresql", "mariadb"]
BOOK = {"title": "Ölfässer & 本", "price": 12.5, "pages": 300, "new": True, "tags": ["a", "b"], "by": {"name": "Ö"}}


def key(place: int, page: int = 7) -> str:
    return f"{page:016x}-{place}"


def test_items_become_rows_with_the_types_of_their_values(place, run):
    run(place.target).open().write(BOOK, BOOK | {"title": "other"}).finish()
    assert place.records() == {
        key(0): place.plain(BOOK),
        key(1): place.plain(BOOK | {"title": "other"}),
    }


def test_an_empty_run_leaves_an_empty_table(place, run):
    run(place.target).open().finish()
    assert place.rows() == []


def test_new_fields_become_new_columns(place, run):
    each = run(place.target).open().write({"a": 1})
    each.write({"a": 2, "b": "new"}, page=8).finish()
    rows = place.records()
    assert rows[key(0, 8)] == {"a": 2, "b": "new"}
    assert rows[key(0)] in ({"a": 1}, {"a": 1, "b": None})


def test_a_batch_that_comes_again_changes_nothing(place, run):
    each = run(place.target).open().write({"n": 1}).write({"n": 2}, {"n": 3}, page=8, recorded=False)
    once = place.records()
    each.open().write({"n": 2}, {"n": 3}, page=8).finish()
    assert place.records() == once
    assert len(once) == 3


def test_a_longer_batch_that_begins_again_holds_everything_once(place, run):
    each = run(place.target).open().write({"n": 1}, {"n": 2}, recorded=False)
    each.open().write({"n": 1}, {"n": 2}, {"n": 3}).finish()
    assert sorted(row["n"] for row in place.records().values()) == [1, 2, 3]


def test_the_later_item_of_a_key_stays(place, run):
    each = run(place.with_options("key=sku")).open()
    each.write({"sku": "x", "n": 1, "only": "first"}, {"sku": "y", "n": 1}, {"sku": "x", "n": 2})
    each.write({"sku": "y", "n": 3}).finish()
    rows = place.records()
    assert {name: row["n"] for name, row in rows.items()} == {"x": 2, "y": 3}
    assert rows["x"]["only"] == "first", "an item sets the fields it has"


def test_a_null_is_set_and_a_missing_field_is_left_alone(place, run):
    each = run(place.with_options("key=sku")).open().write({"sku": "x", "a": 1, "b": 1})
    each.write({"sku": "x", "a": None}).finish()
    row = place.records()["x"]
    assert (row["a"], row["b"]) == (None, 1)


def test_several_fields_may_be_the_key(place, run):
    each = run(place.with_options("key=shop,sku")).open()
    each.write({"shop": "a,b", "sku": "c", "n": 1}, {"shop": "a", "sku": "b,c", "n": 2})
    each.write({"shop": "a", "sku": "b,c", "n": 3}).finish()
    assert sorted(row["n"] for row in place.records().values()) == [1, 3]


def test_keys_that_look_alike_stay_apart(place, run):
    names = ["a", "A", "a ", " a", "ä", "a\u0308", "ß", "ss", "1", "01", "é", "e"]
    run(place.with_options("key=sku")).open().write(*({"sku": name, "n": n} for n, name in enumerate(names))).finish()
    assert {name: row["n"] for name, row in place.records().items()} == {name: n for n, name in enumerate(names)}


def test_a_key_may_be_longer_than_an_index_takes(place, run):
    long = "https://books.example/" + "ü" * 5000
    each = run(place.with_options("key=url")).open().write({"url": long, "n": 1}, {"url": long + "x", "n": 2})
    each.write({"url": long, "n": 3}).finish()
    assert sorted(row["n"] for row in place.rows()) == [2, 3]
    assert {row["url"] for row in place.rows()} == {long, long + "x"}


def test_an_item_without_its_key_is_bad_and_the_rest_is_written(place, run):
    each = run(place.with_options("key=sku")).open()
    items = each.items({"sku": "x"}, {"n": 2}, {"sku": "z"})
    with pytest.raises(BadItemsError) as bad:
        each.sink.write(items)
    assert list(bad.value.reasons) == [2]
    each.sink.write([items[0], items[2]])
    assert set(place.records()) == {"x", "z"}


def test_items_without_fields_are_rows_too(place, run):
    run(place.target).open().write({}, {"a": None}, {"a": 1}).finish()
    assert set(place.records()) == {key(0), key(1), key(2)}


def test_a_new_run_overwrites_only_if_it_is_told_to(place, run):
    run(place.target).open().write({"n": 1}).finish()
    run(place.target).open().write({"n": 2}, page=8).finish()
    assert len(place.rows()) == 2
    each = run(place.target, overwrite=True).open().write({"n": 3}, page=9)
    assert [row["n"] for row in place.rows()] == [3]
    each.open().write({"n": 4}, page=10).finish()
    assert sorted(row["n"] for row in place.rows()) == [3, 4], "a run that goes on empties nothing"


def test_a_finished_target_goes_on_behind_what_is_there(place, run):
    each = run(place.target, overwrite=True).open().write({"n": 1}).finish()
    each.open().write({"n": 2}, page=8).finish()
    assert len(place.rows()) == 2


def test_two_jobs_may_write_to_one_table(place, run):
    one, other = run(place.target, job="one").open(), run(place.target, job="other").open()
    one.write({"a": 1})
    other.write({"b": 2}, page=8)
    one.write({"a": 1.5, "b": "text", "c": 1}, page=9)
    other.write({"b": 3, "c": 2}, page=10)
    assert len(place.records()) == 4


def test_one_process_of_a_machine_delivers_a_job(place, run):
    run(place.target).open()
    with pytest.raises(SinkError, match="another process"):
        run(place.target).open()
    run(place.target, job="other").open()


def test_large_batches_and_large_items_arrive(place, run):
    large = ["x" * 3_000_000, "ü" * 1_500_000, *("y" * 400_000 for _ in range(10))]
    run(place.target).open().write(*({"text": text} for text in large)).finish()
    assert sorted(len(row["text"]) for row in place.rows()) == sorted(map(len, large))


def test_strange_field_names_become_columns(place, run):
    fields = ["select", "a b", "back`tick", "per%cent %s", "Title", "title", "_key", "_id", "id", "x" * 300, "é" * 60]
    fields += ["", "semi;colon", "a.b", "$dollar", "xmin", "ROWID", "😀", "x" * 300 + "y"]
    if place.kind != "mongodb":
        # MongoDB takes them as they are. FerretDB on SQLite does not: it does not escape names.
        fields += ["trailing ", 'qu"ote', "back\\slash", "new\nline"]
    record = {field: f"value {n}" for n, field in enumerate(fields)}
    each = run(place.target).open().write(record).open().write(record, page=8).finish()
    values = sorted(record.values())
    for row in place.records().values():
        assert sorted(value for value in row.values() if value is not None) == values
    assert each.progress.closed


def test_numbers_at_their_limits(place, run):
    numbers = [2**63 - 1, -(2**63), 0, 1.7976931348623157e308, 5e-324, -0.5]
    run(place.target).open().write(*({f"n{n}": number} for n, number in enumerate(numbers))).finish()
    for n, number in enumerate(numbers):
        assert place.records()[key(n)][f"n{n}"] == number


def test_a_number_of_more_than_64_bits_is_kept_as_text(place, run):
    run(place.target).open().write({"n": 2**64 - 1}).finish()
    assert place.rows()[0]["n"] == str(2**64 - 1)


def test_what_no_number_is_becomes_null(place, run):
    run(place.target).open().write({"n": 1.5}, {"n": math.nan}, {"n": math.inf}, {"n": -math.inf}).finish()
    assert [place.records()[key(n)]["n"] for n in range(4)] == [1.5, None, None, None]


def test_bytes_are_base64_as_in_files(place, run):
    run(place.target).open().write({"b": b"\x00\xff"}).finish()
    assert place.rows()[0]["b"] == "AP8="


@pytest.mark.parametrize("place", SERVERS, indirect=True)
def test_a_server_that_is_not_there_is_away(run, place):
    scheme = place.url.partition(":")[0]
    options = "?serverSelectionTimeoutMS=300" if place.kind == "mongodb" else ""
    with pytest.raises(SinkUnavailableError) as unavailable:
        run(f"{scheme}://me:hush%20hush@127.0.0.1:1/items{options}#books").open()
    assert "127.0.0.1:1" in str(unavailable.value)
    assert "hush" not in str(unavailable.value) + unavailable.value.hint


@pytest.mark.parametrize("place", SERVERS, indirect=True)
def test_a_wrong_password_is_an_error_without_the_password(run, place):
    wrong = place.target.replace("pa55", "hush")
    with pytest.raises(SinkError) as error:
        run(wrong).open()
    assert not isinstance(error.value, SinkUnavailableError)
    assert "hush" not in f"{error.value}{error.value.hint}{error.value.__cause__}"
    assert error.value.hint


def test_a_target_without_a_table_is_a_usage_error(run, place):
    with pytest.raises(UsageError, match="is named") as error:
        run(place.url)
    assert "pa55" not in f"{error.value}{error.value.hint}"


def test_names_in_the_frontier_hold_no_password(run, place):
    assert "pa55" not in run(place.target).sink.target


texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
names = st.text(st.characters(exclude_characters='"\\ ', exclude_categories=["C", "Z"]), max_size=20)
"""FerretDB on SQLite does not escape names; test_strange_field_names_become_columns has those for the others."""
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False), texts
)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(st.lists(st.dictionaries(names, values, max_size=5), min_size=1, max_size=5), st.integers(1, 2**63))
def test_whatever_a_spider_yields_is_there_once(place, run, records, page):
    each = run(place.target, job=str(page)).open()
    items = [Item(n + 1, page, n, each.items(record)[0].record) for n, record in enumerate(records)]
    for _ in range(2):
        try:
            each.sink.write(items)
        except BadItemsError as bad:
            # A wide or deep one, where the place has limits. The others go in without it.
            items = [item for item in items if item.position not in bad.reasons]
            each.sink.write(items)
    each.sink.close()
    assert {item.key for item in items} <= set(place.records())


@pytest.mark.parametrize("place", TABLES, indirect=True)
def test_progress_of_a_table_that_is_gone_is_an_error(place, run):
    each = run(place.target).open().write({"n": 1})
    place.run("DROP TABLE {table}")
    with pytest.raises(SinkError, match="missing"):
        each.open()
    assert each.progress == SinkProgress(1, b"1")
