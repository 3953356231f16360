"""Keys in order in memory, for the queues and indexes of the memory frontier."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from itertools import chain, islice, takewhile
from operator import itemgetter
from typing import Any

Key = tuple[Any, ...]
_FIRST = itemgetter(0)


class SortedIndex:
    """Keys in order, each belonging to one name; a name may be re-keyed or taken out.

    In blocks: with a million keys, a change moves a thousand of them at most.
    """

    BLOCK = 1000

    def __init__(self) -> None:
        self._blocks: list[list[Key]] = [[]]
        self._key_of: dict[Any, Key] = {}

    def __len__(self) -> int:
        return len(self._key_of)

    def __contains__(self, name: object) -> bool:
        return name in self._key_of

    def put(self, name: Any, key: Key | None) -> None:
        old = self._key_of.pop(name, None)
        if old is not None:
            self._take_out(old)
        if key is not None:
            self._key_of[name] = key
            self._insert(key)

    def first(self, limit: int) -> list[Key]:
        return list(islice(chain.from_iterable(self._blocks), limit))

    def onwards(self, start: Key, limit: int) -> list[Key]:
        """From ``start`` on, which need not be a key."""
        return list(islice(self._from(start), limit))

    def between(self, start: Key, end: Key) -> list[Key]:
        """From ``start`` on, and before ``end``."""
        return list(takewhile(lambda key: key < end, self._from(start)))

    def _from(self, start: Key) -> Iterator[Key]:
        number = self._number_of(start)
        block = self._blocks[number]
        return chain(block[bisect_left(block, start) :], chain.from_iterable(self._blocks[number + 1 :]))

    def _insert(self, key: Key) -> None:
        number = self._number_of(key)
        block = self._blocks[number]
        insort(block, key)
        if len(block) > self.BLOCK:
            half = len(block) // 2
            self._blocks[number : number + 1] = [block[:half], block[half:]]

    def _take_out(self, key: Key) -> None:
        number = self._number_of(key)
        block = self._blocks[number]
        del block[bisect_left(block, key)]
        if not block and len(self._blocks) > 1:
            del self._blocks[number]

    def _number_of(self, key: Key) -> int:
        """The block where a key is, or belongs: the last one that begins with it, or before it."""
        if len(self._blocks) == 1:
            return 0
        return max(0, bisect_right(self._blocks, key, key=_FIRST) - 1)
