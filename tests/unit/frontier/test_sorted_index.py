"""The order of keys in blocks is that of one sorted list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.frontier.sorted_index import SortedIndex

NAMES = st.integers(0, 30)
KEYS = st.one_of(st.none(), st.integers(0, 20))


@given(st.lists(st.tuples(NAMES, KEYS), max_size=120), st.integers(0, 21), st.integers(0, 40))
def test_blocks_are_one_list(changes: list[tuple[int, int | None]], start: int, limit: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SortedIndex, "BLOCK", 3)
        index = SortedIndex()
        expected: dict[int, tuple[int, int]] = {}
        for name, number in changes:
            key = None if number is None else (number, name)
            index.put(name, key)
            expected.pop(name, None)
            if key is not None:
                expected[name] = key
            assert all(len(block) <= 3 for block in index._blocks)
        keys = sorted(expected.values())
        assert len(index) == len(keys)
        assert index.first(limit) == keys[:limit]
        assert index.onwards((start,), limit) == [key for key in keys if key >= (start,)][:limit]
