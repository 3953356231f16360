"""Items that come again because the store has forgotten that it gave them.

A Redis replica that is promoted may miss the newest writes: the pages committed last are fetched and committed again,
and their items, which the target holds already, take other positions. The key of an item stays the same. So a writer
that lives through it remembers what it wrote lately, and leaves out what comes a second time. One that dies in the
same moment cannot: docs/guarantees.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from skitter.model.item import Item

REMEMBERED = 50_000
"""Items. More than a frontier gives in the seconds that a failover can take back."""
_Key = tuple[int, int]


class RecentItems:
    """Keys of the items that one target was given lately."""

    def __init__(self, size: int = REMEMBERED) -> None:
        self._size = size
        self._lately: deque[_Key] = deque(maxlen=size)
        # Written, and perhaps forgotten by the store. Each may come again once, whenever its page is fetched again.
        self._doubtful: dict[_Key, None] = {}

    def without(self, items: Sequence[Item], written_up_to: int) -> list[Item]:
        """Those that the target lacks. ``written_up_to``: the last position that it was given."""
        if items and items[0].position <= written_up_to:
            self._doubtful.update(dict.fromkeys(self._lately))
            self._lately.clear()
            for key in list(self._doubtful)[: -2 * self._size]:
                # Of a failover long ago: bounded, whatever happens.
                del self._doubtful[key]
        if not self._doubtful:
            return list(items)
        return [item for item in items if not self._is_repeated(item)]

    def wrote(self, items: Sequence[Item]) -> None:
        self._lately.extend((item.request_id, item.place) for item in items)

    def _is_repeated(self, item: Item) -> bool:
        key = (item.request_id, item.place)
        if key not in self._doubtful:
            return False
        del self._doubtful[key]
        # It is the store's again, and can be forgotten again.
        self._lately.append(key)
        return True
