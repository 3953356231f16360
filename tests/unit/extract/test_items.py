"""Whatever kind of item a spider yields becomes the same plain record, and survives being stored."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import json
import math
import subprocess
import sys
import uuid
from collections import Counter, OrderedDict, UserDict, deque
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.errors import FormatError, ItemError
from skitter.extract.items import decode_item, encode_item, is_item, to_record
from skitter.model.request import Request

attrs = pytest.importorskip("attrs")
pydantic = pytest.importorskip("pydantic")


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Book:
    title: str
    price: Any = 1
    _hidden: int = 2


class BookStruct(msgspec.Struct):
    title: str
    price: Any = 1


class BookArray(msgspec.Struct, array_like=True):
    title: str
    price: Any = 1


BookAttrs = attrs.make_class("BookAttrs", {"title": attrs.field(), "price": attrs.field(default=1)}, slots=True)
BookModel = pydantic.create_model("BookModel", title=(str, ...), price=(Any, 1))


@pytest.mark.parametrize(
    "item",
    [
        {"title": "t", "price": 1},
        OrderedDict(title="t", price=1),
        UserDict(title="t", price=1),
        BookStruct("t"),
        BookArray("t"),
        BookAttrs("t"),
        BookModel(title="t"),
    ],
    ids=lambda item: type(item).__name__,
)
def test_every_kind_of_item_becomes_the_same_record(item: object) -> None:
    assert is_item(item)
    assert to_record(item) == decode_item(encode_item(item)) == {"title": "t", "price": 1}


def test_a_dataclass_keeps_all_its_fields() -> None:
    assert to_record(Book("t")) == {"title": "t", "price": 1, "_hidden": 2}


@pytest.mark.parametrize("value", [None, 1, "x", b"x", [], (), {1}, Request("http://x.test/"), Book, dict, object()])
def test_other_things_are_not_items(value: object) -> None:
    assert not is_item(value)
    with pytest.raises(ItemError) as caught:
        to_record(value)
    assert caught.value.hint


class Text(str):
    __slots__ = ()


class Number(int):
    pass


VALUES: list[tuple[Any, Any]] = [
    (None, None),
    (True, True),
    (1.5, 1.5),
    (2**64 - 1, 2**64 - 1),
    (b"\xff", b"\xff"),
    (dt.datetime(2024, 1, 2, 3, 4, 5, tzinfo=dt.UTC), "2024-01-02T03:04:05Z"),
    (dt.datetime(2024, 1, 2, 3, 4, 5), "2024-01-02T03:04:05"),  # noqa: DTZ001
    (dt.date(2024, 1, 2), "2024-01-02"),
    (dt.time(3, 4), "03:04:00"),
    (decimal.Decimal("1.10"), "1.10"),
    (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (Colour.RED, "red"),
    ({3}, [3]),
    ((1, 2), [1, 2]),
    (deque([1]), [1]),
    (Counter("aa"), {"a": 2}),
    (Text("t"), "t"),
    (Number(3), 3),
    ({1: "a", dt.date(2024, 1, 2): "b"}, {"1": "a", "2024-01-02": "b"}),
    ({None: "a", (1, 2): {True: "b"}}, {"None": "a", "(1, 2)": {"True": "b"}}),
    ([{Text("k"): 1}], [{"k": 1}]),
    (Book("t"), {"title": "t", "price": 1, "_hidden": 2}),
    (BookModel(title="t", price=dt.date(2024, 1, 2)), {"title": "t", "price": "2024-01-02"}),
    ([BookAttrs("t"), UserDict(a=1)], [{"title": "t", "price": 1}, {"a": 1}]),
]


@pytest.mark.parametrize(("value", "plain"), VALUES, ids=lambda value: type(value).__name__)
def test_values_become_plain_and_survive(value: Any, plain: Any) -> None:
    stored = encode_item({"v": value})
    record = decode_item(stored)
    assert record == {"v": plain}
    assert encode_item(record) == stored, "storing again changes nothing"
    msgspec.json.encode(record)


def test_not_a_number_is_stored_and_is_null_in_json() -> None:
    record = decode_item(encode_item({"nan": math.nan, "inf": math.inf}))
    assert math.isnan(record["nan"])
    assert json.loads(msgspec.json.encode(record)) == {"nan": None, "inf": None}


CYCLE: dict[str, Any] = {}
CYCLE["self"] = CYCLE


class FakeSelector:
    def getall(self) -> list[str]:
        return []


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (FakeSelector(), ".get()"),
        ("half \ud800", "surrogate"),
        (2**64, "64 bits"),
        (object(), "items take"),
        (CYCLE, "items take"),
        ([1, iter([])], "items take"),
    ],
)
@pytest.mark.parametrize("kind", [dict, Book, BookStruct])
def test_a_value_that_cannot_be_stored_is_named(kind: Any, value: Any, hint: str) -> None:
    with pytest.raises(ItemError, match="price") as caught:
        encode_item(kind(title="t", price=value))
    assert hint in caught.value.hint


def test_an_item_that_cannot_be_taken_apart_is_an_item_error() -> None:
    with pytest.raises(ItemError) as caught:
        encode_item(BookModel(title="t", price=CYCLE))
    assert caught.value.hint


def test_foreign_bytes_are_a_format_error() -> None:
    for stored in (b"", b"\xc1", b"\x01", b"\x81\xa1", b"\x81\xa1\xff\x01"):
        with pytest.raises(FormatError):
            decode_item(stored)


def test_items_need_neither_attrs_nor_pydantic() -> None:
    code = (
        "import sys; from skitter.extract import items; items.encode_item({'a': 1});"
        "sys.exit(bool({'attr', 'attrs', 'pydantic', 'parsel', 'lxml'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), PLAIN, max_size=5))
def test_plain_records_survive_unchanged(record: dict[str, Any]) -> None:
    assert decode_item(encode_item(record)) == record
