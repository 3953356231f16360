"""Keys: stable, told apart, and an item without one is a bad item."""

from __future__ import annotations

from typing import Any

import pytest

from skitter.errors import BadItemsError, ItemError
from skitter.extract.items import encode_item
from skitter.model.item import Item
from skitter.sinks.item_keys import items_with_keys, key_of


def item(position: int, **record: Any) -> Item:
    return Item(position, 7, position, encode_item(record))


def test_without_fields_the_place_on_the_page_is_the_key() -> None:
    assert key_of(item(1), {}, ()) == "0000000000000007-1"


@pytest.mark.parametrize(
    ("record", "fields", "key"),
    [
        ({"isbn": "978"}, ["isbn"], "978"),
        ({"isbn": 978}, ["isbn"], "978"),
        ({"a": "x,y", "b": "z"}, ["a", "b"], '["x,y","z"]'),
        ({"a": "x", "b": "y,z"}, ["a", "b"], '["x","y,z"]'),
        ({"a": {"q": 1, "p": 2}}, ["a"], '{"p":2,"q":1}'),
        ({"a": 0}, ["a"], "0"),
        ({"a": ""}, ["a"], ""),
    ],
)
def test_a_key_of_fields(record: dict[str, Any], fields: list[str], key: str) -> None:
    assert key_of(item(1), record, fields) == key


@pytest.mark.parametrize("record", [{}, {"isbn": None}])
def test_an_item_without_its_key_field_is_refused(record: dict[str, Any]) -> None:
    with pytest.raises(ItemError, match="the key field is missing: isbn"):
        key_of(item(1), record, ["isbn"])


def test_all_bad_items_of_a_batch_are_named_at_once() -> None:
    with pytest.raises(BadItemsError) as refused:
        items_with_keys([item(1, isbn="1"), item(2), Item(3, 7, 3, b"\xc1"), item(4, isbn="4")], ["isbn"], "db")
    assert refused.value.reasons.keys() == {2, 3}
    assert "isbn" in refused.value.reasons[2]
    assert "cannot be read" in refused.value.reasons[3]
    assert items_with_keys([item(1, isbn="1", n=2)], ["isbn"], "db") == [("1", {"isbn": "1", "n": 2})]
