"""Items that come again are left out, and no others."""

from __future__ import annotations

from skitter.delivery.repeated_items import RecentItems
from skitter.model.item import Item


def items(first: int, *ids: int) -> list[Item]:
    return [Item(first + number, request_id, 0, b"") for number, request_id in enumerate(ids)]


def give(repeats: RecentItems, batch: list[Item], written_up_to: int) -> list[int]:
    lacking = repeats.without(batch, written_up_to)
    repeats.wrote(lacking)
    return [item.request_id for item in lacking]


def test_while_positions_grow_everything_is_new() -> None:
    repeats = RecentItems()
    assert give(repeats, items(1, 7, 8), 0) == [7, 8]
    # The same key again, by a store that knows what it gave: its own affair.
    assert give(repeats, items(3, 7), 2) == [7]


def test_after_positions_went_back_each_key_is_left_out_once() -> None:
    repeats = RecentItems()
    give(repeats, items(1, 7, 8, 9), 0)
    assert give(repeats, items(2, 5, 9), 3) == [5]
    assert give(repeats, items(4, 8, 6), 3) == [6]
    assert give(repeats, items(6, 8), 5) == [8]


def test_what_was_left_out_can_be_forgotten_again() -> None:
    repeats = RecentItems()
    give(repeats, items(1, 7), 0)
    assert give(repeats, items(1, 7), 1) == []
    assert give(repeats, items(1, 7), 1) == []


def test_it_remembers_so_much_and_no_more() -> None:
    repeats = RecentItems(size=2)
    for round_number in range(5):
        give(repeats, items(1, *range(round_number * 10, round_number * 10 + 10)), 10)
    assert len(repeats._doubtful) <= 4
    assert len(repeats._lately) <= 2
