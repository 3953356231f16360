"""The key of an item: what tells it apart in every target, however often its page is fetched."""

from __future__ import annotations

from skitter.model.item import Item


def test_a_key_is_plain_text_for_every_request_id() -> None:
    assert Item(1, 255, 3, b"").key == "00000000000000ff-3"
    assert Item(1, -1, 0, b"").key == "ffffffffffffffff-0"
